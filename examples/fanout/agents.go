package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// search asks an outside system, which answers when it likes.
var search = tool.Must(tool.Func(
	tool.Spec{
		Name: "search", Description: "Search a source.", Effect: tool.Idempotent, MayPause: true,
	},
	func(_ context.Context, in struct {
		Source string `json:"source"`
	}) (tool.Result[string], error) {
		return tool.Pending[string](tool.Await{Key: in.Source}), nil
	}))

// researcher is an agent that searches one source. Without an answer it fails.
func researcher(source string) *agent.Agent {
	model := fakellm.New(
		fakellm.Calls("search", `{"source":"`+source+`"}`),
		fakellm.From(func(r llm.Request) fakellm.Turn {
			found := results(r)[0]
			if found.Error {
				return fakellm.Fails(errors.New("the source has nothing"))
			}
			return fakellm.Says("The " + source + " has it: " + string(found.Output))
		}))
	return tool.Must(agent.New(agent.Config{Name: source, Model: model, Tools: []tool.Tool{search}}))
}

// lead is a script in place of a model, so that the example needs no key. A
// model decides the same by what it reads.
var lead = fakellm.New(
	fakellm.Calls("execute_agent_async", `{"agentId":"archive","prompt":"How old is it?"}`).
		And("execute_agent_async", `{"agentId":"library","prompt":"How old is it?"}`).
		And("execute_agent_async", `{"agentId":"museum","prompt":"How old is it?"}`),
	fakellm.From(func(r llm.Request) fakellm.Turn {
		var ids []string
		for _, begun := range results(r) {
			ids = append(ids, field[string](begun, "handleId"))
		}
		return fakellm.Calls("wait_for_multiple", text(map[string]any{"handleIds": ids, "mode": "any"}))
	}),
	fakellm.From(func(r llm.Request) fakellm.Turn { // the others are aborted
		turn := fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"hook"}`)
		all := field[map[string]struct{ Status string }](results(r)[0], "results")
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if all[id].Status == "pending" {
				turn = turn.And("complete_wait_handle",
					text(map[string]any{"handleId": id, "error": "another was first"}))
			}
		}
		return turn
	}),
	fakellm.Calls("wait_for", `{"handleId":"gate"}`),
	fakellm.Says("The report is out."))

// results are those of a request's last message.
func results(r llm.Request) (all []llm.ToolResult) {
	for _, part := range r.Messages[len(r.Messages)-1].Parts {
		if result, ok := part.(llm.ToolResult); ok {
			all = append(all, result)
		}
	}
	return all
}

// field reads a member of a result.
func field[T any](r llm.ToolResult, name string) (value T) {
	var all map[string]json.RawMessage
	check(json.Unmarshal(r.Output, &all))
	check(json.Unmarshal(all[name], &value))
	return value
}

func text(v any) string {
	b, err := json.Marshal(v)
	check(err)
	return string(b)
}
