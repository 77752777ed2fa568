// Command nextmessage takes the user's next message for the answer to a
// question, as in a chat without buttons.
//
//	go run ./examples/nextmessage
//
// It prints:
//
//	ada:   I'd like a bicycle.
//	agent: Which colour?
//	ada:   Green.
//	agent: A green bicycle. It ships on Monday.
//	ada:   Thank you!
//	agent: You are welcome.
//
//	in the session:
//	user      I'd like a bicycle.
//	assistant calls ask_user {"question":"Which colour?"}
//	tool      "Green."
//	assistant A green bicycle. It ships on Monday.
//	user      Thank you!
//	assistant You are welcome.
package main

import (
	"context"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type AskInput struct {
	Question string `json:"question"`
}

// ask pauses in message mode: the text of the next message is the result.
var ask = tool.Must(tool.Func(
	tool.Spec{
		Name: "ask_user", Description: "Ask the user a question.",
		Effect: tool.ReadOnly, MayPause: true,
	},
	func(_ context.Context, in AskInput) (tool.Result[string], error) {
		return tool.Pending[string](tool.Await{
			Reason: tool.ReasonInput, Mode: tool.ModeMessage, Prompt: in.Question,
		}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("ask_user", `{"question":"Which colour?"}`),
	fakellm.Says("A green bicycle. It ships on Monday."),
	fakellm.Says("You are welcome."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "shop", Model: model, Tools: []tool.Tool{ask}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	// The loop of a chat: whatever the user says goes to Run. While exactly one
	// call waits for a message, Run takes the message for its answer.
	for _, said := range []string{"I'd like a bicycle.", "Green.", "Thank you!"} {
		fmt.Println("ada:  ", said)
		for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText(said), nil) {
			check(err)
			switch ev := ev.(type) {
			case event.Pause:
				fmt.Println("agent:", ev.Pause.Await.Prompt)
			case event.TextDelta:
				fmt.Println("agent:", ev.Delta)
			}
		}
	}

	// The answer is the call's result, and no message of its own.
	t, err := rn.Show(ctx, "chat-1", "ada")
	check(err)
	fmt.Println("\nin the session:")
	for _, m := range t.History {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.Text:
				fmt.Printf("%-9s %s\n", m.Role, p.Text)
			case llm.ToolCall:
				fmt.Printf("%-9s calls %s %s\n", m.Role, p.Name, p.Arguments)
			case llm.ToolResult:
				fmt.Printf("%-9s %s\n", m.Role, p.Output)
			case llm.Notice:
				fmt.Printf("%-9s is told that %s is %s: %s\n", m.Role, p.Handle, p.State, p.Text)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
