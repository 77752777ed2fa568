// Command supersede lets a user change their mind while a call waits for an
// approval: the new message takes its place.
//
//	go run ./examples/supersede
//
// It prints:
//
//	ada: Cancel order 1042.
//	cancel_order waits for an approval
//	ada: No, I want to keep it.
//	refused, since this waits: cancel_order {"order":"1042"}
//	ada, once more: No, I want to keep it.
//	call ends: denied: "Denied: the user sent another message instead of an answer. The tool was not run."
//	model says: Then it stays as it is.
//	grace approves, too late: the call is denied by ada
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

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

type CancelInput struct {
	Order string `json:"order"`
}

// cancel would run after the approval. Here it never does.
var cancel = tool.Must(tool.Func(
	tool.Spec{Name: "cancel_order", Description: "Cancel an order."},
	func(_ context.Context, in CancelInput) (tool.Result[string], error) {
		fmt.Println("order", in.Order, "is cancelled")
		return tool.Done("cancelled"), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("cancel_order", `{"order":"1042"}`),
	fakellm.Says("Then it stays as it is."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "shop", Model: model, Tools: []tool.Tool{cancel},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	fmt.Println("ada: Cancel order 1042.")
	paused := show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Cancel order 1042."), nil))
	check(paused)

	// While calls wait, a message is refused. The error lists what waits, so
	// that the user can be asked which it is to be: to wait, or to go on.
	const changed = "No, I want to keep it."
	fmt.Println("ada:", changed)
	err = show(rn.Run(ctx, "ada", "chat-1", llm.UserText(changed), nil))
	pending, ok := errors.AsType[*session.PendingError](err)
	if !ok {
		panic(err)
	}
	late := pending.Pending[0]
	fmt.Println("refused, since this waits:", late.Tool, string(late.Arguments))

	// With Supersede the call is denied in favour of the message. This goes for
	// what waits for a person, or for a tool that is gone; a call that waits for
	// an outside job is not given up for a message.
	fmt.Println("ada, once more:", changed)
	over := &runner.RunOptions{Supersede: true}
	check(show(rn.Run(ctx, "ada", "chat-1", llm.UserText(changed), over)))

	// A decision that comes now is too late.
	_, err = rn.Resume(ctx, "chat-1", runner.Approve(late.ID, "grace", "checked"))
	if settled, ok := errors.AsType[*session.SettledError](err); ok {
		fmt.Println("grace approves, too late: the call is", settled.Status, "by", settled.Actor)
	}
}

// show prints the events of a run, and returns its error.
func show(events iter.Seq2[event.Event, error]) (err error) {
	for ev, e := range events {
		if e != nil {
			err = e
		}
		switch ev := ev.(type) {
		case event.Pause:
			fmt.Println(ev.Pause.Tool, "waits for an approval")
		case event.Result:
			fmt.Printf("call ends: %s: %s\n", ev.Status, ev.Result.Output)
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}
	return err
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
