// Command inbox lists what waits for a person's decision, over all sessions. An
// authorizer sees to it that only staff decide.
//
//	go run ./examples/inbox
//
// It prints:
//
//	ada approves: not allowed: true
//	ada approves other arguments: not allowed: true
//	inbox: ada wants refund {"order":"1042"} within 24h0m0s
//	inbox: bob wants refund {"order":"1043"} within 24h0m0s
//	refund pays for order 1042
//	call of ada ends: done: "paid"
//	call of bob ends: denied: "The call was refused, and the tool was not run. Do not try again unless you are told to. Reason: the order was kept"
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	Order string `json:"order"`
}

var refund = tool.Must(tool.Func(
	tool.Spec{Name: "refund", Description: "Refund an order."},
	func(_ context.Context, in RefundInput) (tool.Result[string], error) {
		fmt.Println("refund pays for order", in.Order)
		return tool.Done("paid"), nil
	}))

// model is a script in place of a model. It refunds what it is asked for.
var model = fakellm.New(
	fakellm.From(func(r llm.Request) fakellm.Turn {
		order := strings.TrimPrefix(fakellm.LastUserText(r), "refund ")
		return fakellm.Calls("refund", fmt.Sprintf(`{"order":%q}`, order))
	}),
	fakellm.Says("That is all I can do."))

// authorize is asked before each operation. Users act on their own sessions;
// only staff look into the inbox, decide, and hand out tokens in a name.
func authorize(_ context.Context, op runner.Operation) error {
	staffOnly := op.Decides() || op.Kind == runner.OpMint
	if op.Actor == "grace" || op.Own() && !staffOnly {
		return nil
	}
	return errors.New("only staff may do that")
}

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "shop", Model: model, Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Timeout: 24 * time.Hour}),
		},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), &runner.Options{Authorizer: authorize})
	check(err)
	defer rn.Close()

	for _, m := range []struct{ user, text string }{
		{"ada", "refund 1042"}, {"bob", "refund 1043"},
	} {
		for _, err := range rn.Run(ctx, m.user, "chat-of-"+m.user, llm.UserText(m.text), nil) {
			check(err)
		}
	}

	// Ada may not decide about her own refund.
	for p, err := range rn.Pending(ctx, session.PauseFilter{User: "ada", People: true}, "ada") {
		check(err)
		for _, try := range []struct {
			what     string
			decision runner.Resumption
		}{
			{"approves", runner.Approve(p.ID, "ada", "please")},
			{"approves other arguments",
				runner.ApproveEdited(p.ID, "ada", "please", RefundInput{Order: "1"})},
		} {
			_, err := rn.Resume(ctx, p.Session, try.decision)
			fmt.Printf("ada %s: not allowed: %t\n", try.what,
				errors.Is(err, runner.ErrNotAllowed))
		}
	}

	// The inbox, the oldest first. Grace approves one, and denies one.
	filter := session.PauseFilter{Reason: tool.ReasonApproval, Limit: 50}
	for p, err := range rn.Pending(ctx, filter, "grace") {
		check(err)
		wait := p.Deadline.Sub(p.Since)
		fmt.Println("inbox:", p.User, "wants", p.Tool, string(p.Arguments), "within", wait)
		decision := runner.Approve(p.ID, "grace", "checked the order")
		if p.User == "bob" {
			decision = runner.Deny(p.ID, "grace", "the order was kept")
		}
		_, err := rn.Resume(ctx, p.Session, decision)
		check(err)
	}

	// In a service one worker, rn.Work, carries all sessions on.
	for _, user := range []string{"ada", "bob"} {
		for ev, err := range rn.Continue(ctx, "chat-of-"+user, runner.Actor(user)) {
			check(err)
			if ev, ok := ev.(event.Result); ok {
				fmt.Printf("call of %s ends: %s: %s\n", user, ev.Status, ev.Result.Output)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
