package main

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/examples/internal/stage"
	"github.com/fermata-ai/fermata/examples/internal/standin"
	"github.com/fermata-ai/fermata/examples/internal/tools"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

const chat = "chat-1"

// open opens the store, and makes a runner for the agent on it: what each process does that has to do with the agent.
func open(args []string) (rn *runner.Runner, closeAll func()) {
	ag := stage.Must(agent.New(agent.Config{
		Name: "ops", Model: standin.Deployer, Tools: []tool.Tool{tools.Deploy(args[1], args[2]), tools.Weather, tools.Where},
	}))
	db := stage.Must(bolt.Open(args[0], nil))
	rn = stage.Must(runner.New(ag, session.NewStore(db, nil), nil))
	return rn, func() { stage.Check(rn.Close()); stage.Check(db.Close()) }
}

// ask is the first process. It runs the agent until nothing is left to do but wait for the outside world.
func ask(ctx context.Context, args []string) {
	rn, closeAll := open(args)
	defer closeAll()
	message := args[3]
	if message == "" {
		message = stage.Prompt("Your message, such as: deploy checkout v2.5.0")
	}
	stage.Line("typed", "user", "%q", message)
	end := stage.Events(rn.Run(ctx, "ada", chat, llm.UserText(message), nil))
	for len(end.Pending) > 0 && end.Pending[0].Await.Reason == tool.ReasonInput {
		question := end.Pending[0]
		answer, err := runner.FromText(question, stage.Prompt(question.Await.Prompt), "ada")
		var res *runner.Resumed
		if err == nil {
			res, err = rn.Resume(ctx, chat, answer)
		}
		if errors.Is(err, session.ErrInvalidResumePayload) {
			stage.Line("refused", "answer", "%v", err)
			continue // the question is still open
		}
		stage.Check(err)
		end = stage.Events(res.Events(ctx))
	}
}

// look says what the store has, and whether a call waits.
func look(ctx context.Context, args []string) (waiting bool) {
	rn, closeAll := open(args)
	defer closeAll()
	t := stage.Must(rn.Show(ctx, chat, "ada"))
	stage.Session("stored", t)
	return len(t.Pending) > 0
}

// resume is the second process. The webhook makes durable what is delivered; Work carries the agent on.
func resume(ctx context.Context, args []string) {
	rn, closeAll := open(args)
	defer closeAll()
	hooks := stage.Must(webhook.New(rn, webhook.Config{}))
	go func() { _ = rn.Work(ctx, nil) }() // until the runner is closed
	p := stage.Must(rn.Show(ctx, chat, "ada")).Pending[0]
	stage.Serve(ctx, hooks, nil, func() { // after each request
		stage.Call("stored", stage.Must(rn.Call(ctx, chat, p.Call, "ada")), stage.Must(rn.Find(ctx, runner.Ref{Pause: p.ID}, "ada")))
	})
	for _, err := range rn.Follow(ctx, chat, "ada", nil) { // until the session is at rest
		stage.Check(err)
	}
	t := stage.Must(rn.Show(ctx, chat, "ada"))
	stage.Messages("stored", t.History)
	stage.Line("answered", t.User, "%s", t.History[t.Messages-1].Text())
}
