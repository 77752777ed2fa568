// Command rawtool has a tool without Go types, as an adapter for tools of
// others needs it: schemas and arguments are JSON. The tool pauses with a
// question, and is executed again with the answer.
//
//	go run ./examples/rawtool
//
// It prints:
//
//	tool looks for {"pattern":"*.log"}
//	tool asks: Two files match. Type their number to remove them.
//	tool removes ["a.log","b.log"]
//	model reads: {"removed":2}
//	model says: Both are gone.
package main

import (
	"context"
	"encoding/json"
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

// remove deletes files, once a person has typed how many there are.
type remove struct{}

func (remove) Spec() tool.Spec {
	return tool.Spec{
		Name: "remove_files", Description: "Remove the files that match a pattern.", MayPause: true,
		Input: json.RawMessage(`{
			"type": "object",
			"properties": {"pattern": {"type": "string"}},
			"required": ["pattern"],
			"additionalProperties": false
		}`),
	}
}

// Execute gets arguments that fit the schema. Data comes back with the answer.
func (remove) Execute(_ context.Context, call tool.Call) (tool.Execution, error) {
	if call.Answer == nil {
		fmt.Println("tool looks for", string(call.Arguments))
		return tool.Execution{Await: &tool.Await{
			Reason: tool.ReasonInput,
			Mode:   tool.ModeReenter,
			Prompt: "Two files match. Type their number to remove them.",
			Schema: json.RawMessage(`{"type": "integer"}`),
			Data:   json.RawMessage(`["a.log", "b.log"]`),
		}}, nil
	}
	if string(call.Answer.Payload) != "2" {
		return tool.Execution{}, errors.New("that is not their number: nothing was removed")
	}
	fmt.Println("tool removes", string(call.Answer.Data))
	return tool.Execution{Output: json.RawMessage(`{"removed": 2}`)}, nil
}

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("remove_files", `{"pattern":"*.log"}`),
	fakellm.Says("Both are gone."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "janitor", Model: model, Tools: []tool.Tool{remove{}}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	question := show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Tidy up."), nil))
	res, err := rn.Resume(ctx, "chat-1", runner.Complete(question.ID, "ada", json.RawMessage(`2`)))
	check(err)
	show(res.Events(ctx))
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
