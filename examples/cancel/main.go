// Command cancel takes a call back while it waits, and stops another one while
// its body runs. The model reads what became of both. The job that the first
// one waits for is called off outside.
//
//	go run ./examples/cancel
//
// It prints:
//
//	ada:   Export all my data.
//	call waits: export
//	call ends: cancelled by ada: "Cancelled: not needed any more. The work had begun, and may have had effects. What it began is now called off."
//	agent: Then I don't export anything.
//	outside: job-1 is called off: cancelled by ada
//	late answer: was cancelled: true
//	late answer: HTTP status 410
//	ada:   Search for my keys.
//	call ends: cancelled by ada: "Cancelled: it takes too long. The work had begun."
//	agent: I stopped looking.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

var calledOff = make(chan tool.Cancelled, 1)

// export waits for an outside job. If the call ends before that, the job is
// called off. A real tool calls the outside system there; if that fails, it is
// tried again, in another process too.
var export = tool.Must(tool.Func(
	tool.Spec{
		Name: "export", Description: "Export all data.",
		Effect: tool.Idempotent, MayPause: true,
		Cancel: tool.Cancel{Do: func(_ context.Context, c tool.Cancelled) error {
			calledOff <- c
			return nil
		}},
	},
	func(context.Context, struct{}) (tool.Result[string], error) {
		return tool.Pending[string](tool.Await{Key: "job-1"}), nil
	}))

var searching = make(chan tool.Call, 1)

// search runs until its context ends, which a cancellation does.
var search = tool.Must(tool.Func(
	tool.Spec{Name: "search", Description: "Search everywhere.", Effect: tool.ReadOnly},
	func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
		searching <- tool.CallFrom(ctx)
		<-ctx.Done()
		return nil, ctx.Err()
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("export", `{}`),
	fakellm.Says("Then I don't export anything."),
	fakellm.Calls("search", `{}`),
	fakellm.Says("I stopped looking."))

func main() {
	ctx := context.Background()
	tools := []tool.Tool{export, search}
	ag, err := agent.New(agent.Config{Name: "desk", Model: model, Tools: tools})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	// A call that waits settles at once. The agent goes on when it is driven.
	run := func(text string) {
		fmt.Println("ada:  ", text)
		for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText(text), nil) {
			check(err)
			show(ev)
		}
	}
	run("Export all my data.")
	p, err := rn.Find(ctx, runner.Ref{Tool: "export", Key: "job-1"}, "ada")
	check(err)
	_, err = rn.Cancel(ctx, "chat-1", p.Call, "ada", "not needed any more")
	check(err)
	for ev, err := range rn.Continue(ctx, "chat-1", "ada") {
		check(err)
		show(ev)
	}
	c := <-calledOff
	fmt.Printf("outside: %s is called off: %s by %s\n", c.Key, c.Cause, c.Actor)

	// The job's answer comes too late. The refusal says what happened first.
	_, err = rn.Resume(ctx, "chat-1", runner.Complete(p.ID, "job", json.RawMessage(`"data.zip"`)))
	fmt.Println("late answer: was cancelled:", errors.Is(err, session.ErrCancelled))
	fmt.Println("late answer: HTTP status", webhook.Status(err))

	// A body that runs is told by its context. The run goes on by itself.
	go func() {
		call := <-searching
		_, err := rn.Cancel(ctx, call.Session, call.ID, "ada", "it takes too long")
		check(err)
	}()
	run("Search for my keys.")
}

func show(ev event.Event) {
	switch ev := ev.(type) {
	case event.Pause:
		fmt.Println("call waits:", ev.Pause.Tool)
	case event.Result:
		fmt.Printf("call ends: %s by %s: %s\n", ev.Status, ev.Actor, ev.Result.Output)
	case event.TextDelta:
		fmt.Println("agent:", ev.Delta)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
