package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fermata-ai/fermata/examples/chat/internal/ci"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// start opens the file, serves webhooks on the loopback, has a CI server beside
// that, and talks until the person leaves.
func start(ctx context.Context, o options) (err error) {
	db, err := store.Place{URL: o.store, Name: "chat", File: o.file}.Open()
	if err != nil {
		return err
	}
	closed := func(close func() error) { err = errors.Join(err, close()) }
	defer closed(db.Close)
	sessions := session.NewStore(db, nil)
	if o.list {
		return list(ctx, sessions, os.Stdout)
	}
	m, err := choose(o)
	if err != nil {
		return err
	}

	jobs, err := listen()
	if err != nil {
		return err
	}
	defer jobs.Close()
	hooks, err := listen()
	if err != nil {
		return err
	}
	defer hooks.Close()
	ag, err := newAgent(m.llm, "http://"+jobs.Addr().String(),
		"http://"+hooks.Addr().String()+"/hooks")
	if err != nil {
		return err
	}
	scr := newScreen(os.Stdin, os.Stdout)
	// A person at a terminal sees errors, and no warnings of what mends itself.
	logger := slog.New(slog.NewTextHandler(scr, &slog.HandlerOptions{Level: slog.LevelError}))
	rn, err := runner.New(ag, sessions, &runner.Options{Logger: logger})
	if err != nil {
		return err
	}
	defer closed(rn.Close)
	deliveries, err := webhook.New(rn, webhook.Config{Logger: logger})
	if err != nil {
		return err
	}
	defer closed(serve(hooks, deliveries))
	server, err := ci.New(ctx,
		ci.Config{Pace: o.step, File: o.file + ".jobs", Hooks: hooks.Addr().String()})
	if err != nil {
		return err
	}
	defer server.Close()
	defer closed(serve(jobs, server))

	where := "the file " + o.file
	if o.store != "" {
		where = "the store that -store names"
	}
	c := &chat{rn: rn, session: o.session, where: where, again: o.again(),
		model: m, screen: scr, show: newDisplay(scr)}
	return c.talk(ctx)
}

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// serve serves in a goroutine of its own until end is called. End waits for
// that goroutine, and returns its error.
func serve(l net.Listener, h http.Handler) (end func() error) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return func() error {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}
