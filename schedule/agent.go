package schedule

import (
	"context"
	"encoding/json"
	"iter"
	"math"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// AgentName is the name of the agent whose sessions are schedules.
const AgentName = "schedule"

// Agent is the agent whose sessions are schedules, for agent.New. A runner whose
// workers are to carry schedules on has it among its Options.Agents, beside the
// agents that schedules name.
func Agent() agent.Config {
	return agent.Config{
		Name: AgentName, Model: model{}, Tools: []tool.Tool{sleeper{}},
		Limits: agent.Limits{Turns: math.MaxInt32}, OneMessage: true,
	}
}

// model asks for the one call of a schedule: what its user's message has, or
// what the call before has left. It depends on nothing but the request.
type model struct{}

func (model) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		part, reason := next(r.Messages)
		if yield(llm.PartDone{Part: part}, nil) {
			yield(llm.Finish{Reason: reason}, nil)
		}
	}
}

// next is what the model says to a history.
func next(messages []llm.Message) (llm.Part, llm.StopReason) {
	if len(messages) == 0 {
		return llm.Text{Text: "There is no schedule."}, llm.StopEnd
	}
	args := json.RawMessage(nil)
	last := messages[len(messages)-1]
	if last.Role == llm.RoleUser {
		args = json.RawMessage(last.Text())
	}
	for _, p := range last.Parts {
		if r, ok := p.(llm.ToolResult); ok && !r.Error {
			args = r.Output
		}
	}
	if t, _, err := readTask(args); err != nil || t.Over {
		return llm.Text{Text: "The schedule is over."}, llm.StopEnd
	}
	return llm.ToolCall{ID: "schedule", Name: toolName, Arguments: args}, llm.StopToolCalls
}
