// Command question asks a person from within a tool. The call waits until the
// answer fits the tool's result type; what doesn't fit is refused, with words
// that say why.
//
//	go run ./examples/question
//
// It prints:
//
//	tool asks: How many seats on SK1?
//	the answer has to fit: {"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}
//	ada types: two, please
//	refused, ask again
//	because it must be an integer, got "two, please"
//	ada types: 2
//	model reads: 2
//	model says: Two seats it is.
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
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type Flight struct {
	Number string `json:"number"`
}

// seats asks how many people travel. The person's answer is the tool's result,
// a number.
var seats = tool.Must(tool.Func(
	tool.Spec{
		Name: "ask_seats", Description: "Ask the traveller for how many people to book.",
		Effect: tool.ReadOnly, MayPause: true,
	},
	func(_ context.Context, in Flight) (tool.Result[int], error) {
		return tool.NeedInput[int]("How many seats on " + in.Number + "?"), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("ask_seats", `{"number":"SK1"}`),
	fakellm.Says("Two seats it is."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "travel", Model: model, Tools: []tool.Tool{seats}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	question := show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Book us on SK1."), nil))
	fmt.Println("the answer has to fit:", string(question.Await.Schema))

	for _, typed := range []string{"two, please", "2"} { // in place of a keyboard
		fmt.Println("ada types:", typed)
		// FromText makes the answer of what a person typed. A program that has
		// the answer as JSON uses runner.Complete.
		answer, err := runner.FromText(question, "ada", typed)
		var res *runner.Resumed
		if err == nil {
			res, err = rn.Resume(ctx, question.Session, answer)
		}
		if errors.Is(err, session.ErrInvalidResumePayload) {
			fmt.Println("refused, ask again")
			var why *session.PayloadError
			if errors.As(err, &why) {
				fmt.Println("because it", why.Err)
			}
			continue // the question is still open
		}
		check(err)
		show(res.Events(ctx)) // the agent goes on
	}
}

// show prints a run, and returns the question that it ends with.
func show(events iter.Seq2[event.Event, error]) (question tool.Pause) {
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.Pause:
			question = ev.Pause
			fmt.Println("tool asks:", ev.Pause.Await.Prompt)
		case event.Result:
			fmt.Println("model reads:", string(ev.Result.Output))
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}
	return question
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
