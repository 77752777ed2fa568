package ask_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/ask"
)

// The model asks the user to choose, and goes on with the choice.
func ExampleUser() {
	model := fakellm.New(
		fakellm.Calls("ask_user", `{"kind":"decision","question":"Which plan shall I book?",`+
			`"options":["Basic","Pro"]}`),
		fakellm.Says("I have booked the plan Pro."))
	rn, err := start(model)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rn.Close()

	ctx := context.Background()
	var question tool.Pause
	for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Book a plan."), nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev, ok := ev.(event.Pause); ok {
			question = ev.Pause
			fmt.Println(question.Await.Prompt)
		}
	}
	for _, answer := range []string{`"Gold"`, `"Pro"`} {
		res, err := rn.Resume(ctx, "chat-1",
			runner.Complete(question.ID, "ada", json.RawMessage(answer)))
		if err != nil {
			fmt.Println(answer, "is refused")
			continue
		}
		for ev, err := range res.Events(ctx) {
			if err != nil {
				fmt.Println(err)
				return
			}
			switch ev := ev.(type) {
			case event.Result:
				fmt.Println("the model reads", string(ev.Result.Output))
			case event.TextDelta:
				fmt.Println(ev.Delta)
			}
		}
	}
	// Output:
	// Which plan shall I book?
	//
	// One of:
	// - Basic
	// - Pro
	// "Gold" is refused
	// the model reads "Pro"
	// I have booked the plan Pro.
}

// start returns a runner of an agent that may ask its user.
func start(model llm.Model) (*runner.Runner, error) {
	asks, err := ask.User(nil)
	if err != nil {
		return nil, err
	}
	ag, err := agent.New(agent.Config{Name: "sales", Model: model, Tools: []tool.Tool{asks}})
	if err != nil {
		return nil, err
	}
	return runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
}
