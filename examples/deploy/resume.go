package main

import (
	"context"

	"github.com/fermata-ai/fermata/examples/internal/stage"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/webhook"
)

// look says what the store has, and whether a call waits.
func look(ctx context.Context, args []string) (waiting bool) {
	rn, closeAll := open(args)
	defer closeAll()
	t := stage.Must(rn.Show(ctx, chat))
	stage.Session("stored", t)
	return len(t.Pending) > 0
}

// resume is the second process. The webhook makes durable what is delivered; Work carries the agent on.
func resume(ctx context.Context, args []string) {
	rn, closeAll := open(args)
	defer closeAll()
	hooks := stage.Must(webhook.New(rn, webhook.Config{}))
	go func() { _ = rn.Work(ctx, nil) }() // until the runner is closed
	p := stage.Must(rn.Show(ctx, chat)).Pending[0]
	stage.Serve(ctx, hooks, nil, func() { // after each request
		stage.Call("stored", stage.Must(rn.Call(ctx, chat, p.Call)), stage.Must(rn.Find(ctx, runner.Ref{Pause: p.ID})))
	})
	for _, err := range rn.Follow(ctx, chat, 0) { // until the session is at rest
		stage.Check(err)
	}
	t := stage.Must(rn.Show(ctx, chat))
	stage.Messages("stored", t.History)
	stage.Line("answered", t.User, "%s", t.History[t.Messages-1].Text())
}
