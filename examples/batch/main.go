// Command batch has three calls in one turn, which wait side by side. Their
// answers come one by one, in any order. Each is durable at once; the model is
// asked when all three have their results.
//
//	go run ./examples/batch
//
// It prints:
//
//	call waits for order-de
//	call waits for order-fr
//	call waits for order-it
//	run ends: paused 3 calls wait
//
//	agency answers order-fr
//	call ends: done "Bonjour"
//	run ends: paused 2 calls wait
//	model requests: 1
//
//	agency answers order-it
//	call ends: failed "Failed: no translator is free."
//	run ends: paused 1 calls wait
//	model requests: 1
//
//	agency answers order-de
//	call ends: done "Guten Tag"
//	model says: German and French are there; for Italian no translator is free.
//	run ends: stop 0 calls wait
//	model requests: 2
//
//	what the model read:
//	"Guten Tag" error: false
//	"Bonjour" error: false
//	"Failed: no translator is free." error: true
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type TranslateInput struct {
	Language string `json:"language"`
}

// translate orders a translation, which people make. The order's number is the
// key by which the agency answers.
var translate = tool.Must(tool.Func(
	tool.Spec{
		Name: "translate", Description: "Have a text translated.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(_ context.Context, in TranslateInput) (tool.Result[string], error) {
		return tool.Pending[string](tool.Await{Key: "order-" + in.Language}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("translate", `{"language":"de"}`).
		And("translate", `{"language":"fr"}`).
		And("translate", `{"language":"it"}`),
	fakellm.Says("German and French are there; for Italian no translator is free."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "press", Model: model, Tools: []tool.Tool{translate},
		Concurrency: 1, // one body after the other, for the same output each time; default 4
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Translate it, please."), nil))

	// The answers come in another order than the calls, and one order fails.
	// Each finds its call by the agency's number.
	for _, delivery := range []struct{ order, text, failure string }{
		{order: "order-fr", text: `"Bonjour"`},
		{order: "order-it", failure: "no translator is free"},
		{order: "order-de", text: `"Guten Tag"`},
	} {
		fmt.Println("\nagency answers", delivery.order)
		p, err := rn.Find(ctx, runner.Ref{Tool: "translate", Key: delivery.order}, "agency")
		check(err)
		answer := runner.Complete(p.ID, "agency", json.RawMessage(delivery.text))
		if delivery.failure != "" {
			answer = runner.Fail(p.ID, "agency", delivery.failure, false)
		}
		res, err := rn.Resume(ctx, p.Session, answer)
		check(err)
		show(res.Events(ctx))
		fmt.Println("model requests:", len(model.Requests()))
	}

	// The results stand in the order of the calls.
	t, err := rn.Show(ctx, "chat-1", "ada")
	check(err)
	fmt.Println("\nwhat the model read:")
	for _, p := range t.History[2].Parts {
		if r, ok := p.(llm.ToolResult); ok {
			fmt.Println(string(r.Output), "error:", r.Error)
		}
	}
}

func show(events iter.Seq2[event.Event, error]) {
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.Pause:
			fmt.Println("call waits for", ev.Pause.Await.Key)
		case event.Result:
			fmt.Println("call ends:", ev.Status, string(ev.Result.Output))
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		case event.End:
			fmt.Println("run ends:", ev.Finish, len(ev.Pending), "calls wait")
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
