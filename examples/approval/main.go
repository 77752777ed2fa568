// Command approval lets a person decide before a tool runs. The person presses
// a button in a chat; the button posts to a webhook with a token that was made
// for this one decision.
//
//	go run ./examples/approval
//
// It prints:
//
//	approval asks: Run refund? {"order":"7","cents":500}
//	webhook answers: 200 OK duplicate: false
//	webhook answers: 200 OK duplicate: true
//	refund pays 500 cents for order 7
//	model says: Your money is on its way.
//	kept with the call: approved by grace, "checked the order"
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

type RefundInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents" jsonschema:"minimum=1"`
}

// refund knows nothing of the approval, which is a layer around it.
var refund = tool.Must(tool.Func(
	tool.Spec{Name: "refund", Description: "Refund an order."},
	func(_ context.Context, in RefundInput) (tool.Result[string], error) {
		fmt.Printf("refund pays %d cents for order %s\n", in.Cents, in.Order)
		return tool.Done("paid"), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("refund", `{"order":"7","cents":500}`),
	fakellm.Says("Your money is on its way."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "shop", Model: model, Tools: []tool.Tool{refund},
		// It asks for every tool that isn't read-only.
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()
	hooks, err := webhook.New(rn, webhook.Config{})
	check(err)
	server := httptest.NewServer(hooks)
	defer server.Close()

	// The user asks. The call waits, and the refund's body isn't entered.
	var waiting tool.Pause
	for ev, err := range rn.Run(ctx, "bob", "chat-1", llm.UserText("Please refund order 7."), nil) {
		check(err)
		if ev, ok := ev.(event.Pause); ok {
			waiting = ev.Pause
			fmt.Println("approval asks:", ev.Pause.Await.Prompt, string(ev.Pause.Arguments))
		}
	}

	// The program makes a button for Grace. A second button would deny.
	button, err := rn.MintToken(ctx, runner.Grant{
		Session: waiting.Session, Pause: waiting.ID,
		Permits: []tool.Permit{tool.PermitApprove}, Holder: "grace",
	}, "chat-bot")
	check(err)

	// Grace presses it. Her chat delivers twice, and the second is a duplicate.
	for range 2 {
		url := webhook.URL(server.URL+"/hooks", button) + "/approve"
		why := strings.NewReader(`{"reason": "checked the order"}`)
		res, err := http.Post(url, "application/json", why)
		check(err)
		var answer struct{ Duplicate bool }
		check(json.NewDecoder(res.Body).Decode(&answer))
		fmt.Println("webhook answers:", res.Status, "duplicate:", answer.Duplicate)
		res.Body.Close()
	}

	// In a service the worker, rn.Work, carries the agent on.
	for ev, err := range rn.Continue(ctx, "chat-1", "bob") {
		check(err)
		if ev, ok := ev.(event.TextDelta); ok {
			fmt.Println("model says:", ev.Delta)
		}
	}
	call, err := rn.Call(ctx, "chat-1", waiting.Call, "bob")
	check(err)
	decision := call.Decisions[0]
	fmt.Printf("kept with the call: approved by %s, %q\n", decision.Actor, decision.Reason)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
