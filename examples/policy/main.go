// Command policy decides by rules which calls run, which a person is asked
// about, and which are denied.
//
//	go run ./examples/policy
//
// It prints:
//
//	ada:   A small refund.
//	refund pays 500 cents
//	call ends: done: "paid"
//	agent: Done.
//
//	ada:   A middle one.
//	grace is asked: Run refund? (more than 10 euros) {"cents":5000}
//	call ends: denied: "The call was refused, and the tool was not run. Do not try again unless you are told to. Reason: the order was kept"
//	agent: I can't.
//
//	ada:   A large one.
//	call ends: denied: "The call was refused, and the tool was not run. Do not try again unless you are told to. Reason: more than 1000 euros"
//	agent: I mustn't.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type RefundInput struct {
	Cents int `json:"cents" jsonschema:"minimum=1"`
}

var refund = tool.Must(tool.Func(
	tool.Spec{Name: "refund", Description: "Refund an order."},
	func(_ context.Context, in RefundInput) (tool.Result[string], error) {
		fmt.Println("refund pays", in.Cents, "cents")
		return tool.Done("paid"), nil
	}))

// limit is the policy. If it returns an error, or panics, a person is asked.
func limit(_ context.Context, call tool.Call) (interceptor.Verdict, error) {
	var in RefundInput
	if err := json.Unmarshal(call.Arguments, &in); err != nil {
		return interceptor.Verdict{}, err
	}
	switch {
	case in.Cents <= 1_000:
		return interceptor.Verdict{Ruling: interceptor.Allow}, nil
	case in.Cents > 100_000:
		return interceptor.Verdict{Ruling: interceptor.Deny, Reason: "more than 1000 euros"}, nil
	}
	return interceptor.Verdict{Ruling: interceptor.Ask, Reason: "more than 10 euros"}, nil
}

// model is a script in place of a model, so that the example needs no key. In
// each turn it makes one call, and then says something.
var model = fakellm.New(
	fakellm.When(fakellm.UserSays("small"),
		fakellm.Calls("refund", `{"cents":500}`), fakellm.Says("Done.")),
	fakellm.When(fakellm.UserSays("middle"),
		fakellm.Calls("refund", `{"cents":5000}`), fakellm.Says("I can't.")),
	fakellm.When(fakellm.UserSays("large"),
		fakellm.Calls("refund", `{"cents":500000}`), fakellm.Says("I mustn't.")))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "shop", Model: model, Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			// A tool that the agent doesn't have is an error of agent.New: a
			// typo never opens a gate.
			Tools:  []string{"refund"},
			Policy: limit,
		})},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	for _, text := range []string{"A small refund.", "A middle one.", "A large one."} {
		fmt.Println("\nada:  ", text)
		var waiting tool.Pause
		for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText(text), nil) {
			check(err)
			if ev, ok := ev.(event.Pause); ok {
				waiting = ev.Pause
			}
			show(ev)
		}
		if waiting.ID == "" {
			continue
		}
		// A denied call ends with a result that tells the model so.
		res, err := rn.Resume(ctx, "chat-1", runner.Deny(waiting.ID, "grace", "the order was kept"))
		check(err)
		for ev, err := range res.Events(ctx) {
			check(err)
			show(ev)
		}
	}
}

func show(ev event.Event) {
	switch ev := ev.(type) {
	case event.Pause:
		fmt.Println("grace is asked:", ev.Pause.Await.Prompt, string(ev.Pause.Arguments))
	case event.Result:
		fmt.Printf("call ends: %s: %s\n", ev.Status, ev.Result.Output)
	case event.TextDelta:
		fmt.Println("agent:", ev.Delta)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
