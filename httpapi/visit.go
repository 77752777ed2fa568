package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/webhook"
)

// visit is one request. It belongs to the request's goroutine.
type visit struct {
	h     *Handler
	w     http.ResponseWriter
	r     *http.Request
	route *route
	user  runner.Actor
	// Drives: what it streams is a run that it has begun.
	drives bool

	patient func() // lifts the bound on how long the request's body may take
}

// refuse returns the refusal of a request that does not get to the runner.
func refuse(code, detail string) error { return httpin.Refuse(code, detail) }

// ServeHTTP serves a request. It is judged from the outside in, the cheapest
// check first: the address, the headers, the path, the method, where it comes
// from, the user, the session, the body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	h.cors.allow(w, r)
	// Also for a body that isn't read: the server takes what is left of it.
	h.bodies.LimitReading(w, r)
	if err := h.knock(r); err != nil {
		webhook.WriteError(w, err)
		return
	}
	if !plain(r.URL.EscapedPath()) {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath, r.RequestURI = "/", "", "/"
	}
	h.mux.ServeHTTP(w, r)
}

// knock counts a request for its address, and measures its headers.
func (h *Handler) knock(r *http.Request) error {
	if h.address != nil {
		if err := h.address.Take(h.proxies.Client(r), h.config.Now()); err != nil {
			return err
		}
	}
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size > h.config.Limits.Header {
		return refuse("headers_too_large", fmt.Sprintf("the address and the headers have at most %d "+
			"bytes together", h.config.Limits.Header))
	}
	return nil
}

// ServeHTTP serves what stands at a path.
func (s *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		s.h.cors.preflight(w, s.allows())
		return
	}
	v := &visit{h: s.h, w: w, r: r, route: s.route(r.Method)}
	if v.route == nil {
		w.Header().Set("Allow", strings.Join(s.allows(), ", "))
		v.fail(refuse("method", "it is one of "+strings.Join(s.allows(), ", ")))
		return
	}
	err := v.enter()
	v.patient = s.h.bodies.LimitReading(w, r)
	if v.route.body == nil {
		v.patient()
	}
	if err == nil {
		err = v.route.serve(v)
	}
	if err != nil {
		v.fail(err)
	}
}

// enter lets a request in, or returns why not.
func (v *visit) enter() error {
	if v.route.open {
		return nil
	}
	if err := v.h.cors.foreign(v.r, v.streams()); err != nil {
		return err
	}
	if v.streams() && !flushes(v.w) {
		return fmt.Errorf("httpapi: a stream needs an http.ResponseWriter with Flush, or with Unwrap "+
			"for one that has it; the program wraps it in a %T", v.w)
	}
	user, err := v.h.signedIn(v.r)
	if err != nil {
		return err
	}
	v.user = user
	if err := v.h.user.Take(string(user), v.h.config.Now()); err != nil {
		return err
	}
	if !strings.Contains(v.route.path, "{session}") {
		return nil
	}
	_, err = v.reach(v.r.Context(), v.session())
	return err
}

// signedIn returns who sends a request, by the program's own word.
func (h *Handler) signedIn(r *http.Request) (runner.Actor, error) {
	user, err := h.config.User(r)
	switch {
	case errors.Is(err, webhook.ErrNoUser), err == nil && user == "":
		return "", refuse("no_user", "no user is signed in")
	case err != nil:
		return "", fmt.Errorf("httpapi: Config.User: %w", err)
	}
	return user, nil
}

// session returns the id that the path names; empty: none.
func (v *visit) session() string { return v.r.PathValue("session") }

// reach returns the request's session, if the user may reach it. Otherwise the
// error is one and the same, whether the session exists or not.
func (v *visit) reach(ctx context.Context, id string) (runner.Session, error) {
	s, err := v.h.rn.Session(ctx, id, v.user)
	if v.h.config.Others {
		return s, err
	}
	known := webhook.Status(err) < 500 || damaged(err)
	if err == nil && s.User != string(v.user) || err != nil && known {
		return s, refuse("unknown_session", "the user has no such session")
	}
	return s, err
}

// fail answers that a request is refused, and why.
func (v *visit) fail(err error) {
	v.note(err)
	webhook.WriteError(v.w, err)
}

// note has the log tell what went wrong inside, which the client is not told.
func (v *visit) note(err error) {
	if r := httpin.AsRefusal(err); r == nil && webhook.Status(err) >= 500 &&
		v.r.Context().Err() == nil {
		v.h.config.Logger.ErrorContext(v.r.Context(), "a request was not served",
			"path", v.r.URL.Path, "session", v.session(), "error", httpin.Cut(err.Error(), 16<<10))
	}
}

// answer answers with JSON.
func (v *visit) answer(status int, body any) error {
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	v.w.WriteHeader(status)
	e := json.NewEncoder(v.w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // a client that has gone away asks again
	return nil
}

// done answers without a body.
func (v *visit) done() error {
	v.w.Header().Set("Cache-Control", "no-store")
	v.w.WriteHeader(http.StatusNoContent)
	return nil
}

// path returns the address of a resource below Config.Path.
func (h *Handler) path(parts ...string) string {
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	return h.config.Path + strings.Join(parts, "/")
}
