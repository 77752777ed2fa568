// Package httpapi serves sessions over HTTP: for browsers, and for programs in
// any language. One handler has all of it: [New]. A request begins a session,
// sends a message, follows what happens as server-sent events, lists and answers
// what waits, cancels, and fetches the files that tools made. docs/http.md lists
// the routes, and the handler describes them itself, at /openapi.json. Clients
// of AG-UI have a route of their own, see docs/agui.md.
//
// It drives nothing but the runs that a request asks to stream: workers
// (Runner.Work) carry on the rest.
//
// # Who may
//
// Config.User tells who sends a request, by the program's own authentication.
// A user reaches their own sessions alone, and is told nothing of whether others
// exist; with Config.Others the runner's Authorizer alone decides. It is asked
// in any case.
//
// Answers to pauses that machines end are not taken here: package webhook takes
// those.
//
// # Streams
//
// A stream is a request that looks. It holds up no drive: what its client reads
// too slowly ends the stream, and the run goes on. So it does when the client
// goes.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/webhook"
)

// Config configures a Handler. It needs a User.
type Config struct {
	// User returns who sends a request, by the program's own authentication: a
	// session cookie, say, or a bearer token. It returns webhook.ErrNoUser, or
	// the empty actor, where no user is signed in. It is asked again while a
	// stream lasts, about the request that began it.
	User func(*http.Request) (runner.Actor, error)
	// Others lets users reach sessions of others, as far as the runner's
	// Authorizer does. It takes a runner that has one.
	Others bool
	// Path is where the handler is mounted: what stands before the routes in a
	// request's path. Default "/".
	Path string
	// CORS are the pages of other origins that may use the handler.
	CORS CORS
	// Limits bound what requests bring.
	Limits Limits
	// Streams configure server-sent events.
	Streams Streams
	// Ready, if set, is asked whether the program is ready to serve, beside the
	// handler itself: its error makes /ready a 503.
	Ready func(context.Context) error
	// Now is the clock by which rates are counted; default time.Now.
	Now func() time.Time
	// Logger gets the errors that a client is not told; default slog.Default.
	// Bodies are never logged.
	Logger *slog.Logger
}

// Limits bound requests. Zero values are the defaults.
type Limits struct {
	Body   int64 // bytes of a body in JSON; default 1 MiB
	Upload int64 // bytes of a body with files, all together; default 8 MiB
	// Conversation is how many bytes a body of AG-UI may have: its clients send
	// all that they show, each time. Of these, files of new messages have at most
	// Upload. Default 32 MiB.
	Conversation int64
	Header       int           // bytes of a request's headers; default 16 KiB
	Reading      time.Duration // how long a body may take to arrive; default 30 s
	// MediaTypes are those of files that messages may bring. Default: images as
	// browsers show them, PDF, and plain text.
	MediaTypes []string
	// Address and User are how many requests are taken of each; default: all.
	Address, User webhook.Rate
	// Remembered is how many addresses and users are remembered, of each;
	// default 10,000.
	Remembered int
	// Proxies are the networks of your own proxies. For a request that comes from
	// one of them, the address is the last one in X-Forwarded-For that is not a
	// proxy's.
	Proxies []netip.Prefix
}

// Streams configure server-sent events. Zero values are the defaults.
type Streams struct {
	// PerUser is how many a user has at once, and how many runs that the user's
	// requests have begun; default 32 each.
	PerUser int
	// Runs is how many runs that requests have begun the handler drives at once;
	// default 256. One whose client has gone counts until it is over.
	Runs      int
	Heartbeat time.Duration // between comments that keep proxies from closing; default 15 s
	// Reauthorize is how often it is asked anew whether the user may still look;
	// default a minute.
	Reauthorize time.Duration
	// Write is how long a client may take to read what it is sent; default 10 s.
	// After that it is dropped.
	Write time.Duration
	// Retry is when a client is to connect again after the handler has ended a
	// stream; default 2 s.
	Retry time.Duration
}

// Handler serves sessions. It is made by New.
type Handler struct {
	rn      *runner.Runner
	config  Config
	mux     *http.ServeMux
	routes  []route // of all handlers; never changed
	cors    cors
	bodies  httpin.Bodies
	uploads httpin.Bodies
	talks   httpin.Bodies // of AG-UI
	address *httpin.Limiter
	user    *httpin.Limiter
	proxies httpin.Proxies
	crew    crew
	openAPI []byte
}

// New returns a handler of a runner's sessions.
//
//	api, err := httpapi.New(rn, httpapi.Config{Path: "/api/", User: signedIn})
//	http.Handle("/api/", api)
func New(rn *runner.Runner, c Config) (*Handler, error) {
	switch {
	case rn == nil:
		return nil, errors.New("httpapi: the runner is nil")
	case c.User == nil:
		return nil, errors.New("httpapi: Config.User is nil; it returns who sends a request")
	case c.Others && !rn.HasAuthorizer():
		return nil, errors.New("httpapi: Config.Others lets the runner's Authorizer decide who " +
			"reaches whose sessions, and the runner has none: set runner.Options.Authorizer")
	case c.Path != "" && (!plain(c.Path) || strings.ContainsAny(c.Path, "{}%?# \t")):
		return nil, fmt.Errorf("httpapi: Config.Path is %q; it is a path such as \"/api/\"", c.Path)
	}
	if err := c.defaults(); err != nil {
		return nil, err
	}
	h := &Handler{rn: rn, config: c}
	var err error
	if h.cors, err = newCORS(c.CORS); err != nil {
		return nil, err
	}
	if err := h.limit(c.Limits); err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	h.crew.begin(c.Streams)
	if h.routes, err = table(); err != nil {
		return nil, err
	}
	if h.openAPI, err = describe(&h.config, h.routes); err != nil {
		return nil, err
	}
	h.mount()
	return h, nil
}

// defaults puts the defaults in, and returns what is wrong with the rest.
func (c *Config) defaults() error {
	l, s := &c.Limits, &c.Streams
	if l.Body < 0 || l.Upload < 0 || l.Conversation < 0 || l.Header < 0 || l.Reading < 0 ||
		l.Remembered < 0 || s.PerUser < 0 || s.Runs < 0 || s.Heartbeat < 0 ||
		s.Reauthorize < 0 || s.Write < 0 ||
		s.Retry < 0 {
		return errors.New("httpapi: a field of Config.Limits or Config.Streams is negative; zero " +
			"is its default")
	}
	c.Path = strings.TrimRight(c.Path, "/") + "/"
	or(&l.Body, webhook.DefaultMaxBody)
	or(&l.Upload, 8<<20)
	or(&l.Conversation, 32<<20)
	or(&l.Header, 16<<10)
	or(&l.Reading, 30*time.Second)
	or(&l.Remembered, httpin.DefaultRemembered)
	or(&s.PerUser, 32)
	or(&s.Runs, 256)
	or(&s.Heartbeat, 15*time.Second)
	or(&s.Reauthorize, time.Minute)
	or(&s.Write, 10*time.Second)
	or(&s.Retry, 2*time.Second)
	if l.MediaTypes == nil {
		l.MediaTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp",
			"application/pdf", "text/plain"}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// or sets a value that is zero.
func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// limit makes what counts requests.
func (h *Handler) limit(l Limits) (err error) {
	h.bodies = httpin.Bodies{Max: l.Body, Timeout: l.Reading, Instead: "send less"}
	h.uploads = httpin.Bodies{Max: l.Upload, Timeout: l.Reading, Instead: "send fewer files, or " +
		"smaller ones"}
	h.talks = httpin.Bodies{Max: l.Conversation, Timeout: l.Reading, Instead: "send the last " +
		"messages alone: the store has the others"}
	h.address, err = httpin.NewLimiter("address", httpin.Rate(l.Address), l.Remembered)
	if err == nil {
		h.user, err = httpin.NewLimiter("user", httpin.Rate(l.User), l.Remembered)
	}
	if err == nil {
		h.proxies, err = httpin.NewProxies(l.Proxies)
	}
	return err
}
