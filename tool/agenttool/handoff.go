package agenttool

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/tool"
)

// HandoffOptions configure a tool of Handoff. Nil means the defaults.
type HandoffOptions struct {
	// Name is the tool's name; default "transfer_to_" and the agent's name.
	Name string
	// Description tells the model when to hand the conversation over; default:
	// a sentence with the agent's name.
	Description string
}

// handoff is a tool whose calls hand the session over.
type handoff struct {
	tool.Tool
	to string
}

// Unwrap returns the tool without the agent.
func (h *handoff) Unwrap() tool.Tool { return h.Tool }

// HandsTo returns the name of the agent, for the runner, which must have it.
func (h *handoff) HandsTo() string { return h.to }

// Handoff returns a tool by which the model hands the conversation over to the
// agent of that name. Once all calls of the turn are settled, that agent has
// the session: it reads all that was said, and speaks with the user from then
// on, until it hands the session on. The runner must have the agent, among
// runner.Options.Agents if it is not the first.
//
// It is a name, and not an agent, so that two agents can hand a session to each
// other. What the run has used goes on counting, against the limits of the
// agent that has it. If several calls of a turn hand over, the first counts.
func Handoff(agent string, o *HandoffOptions) (tool.Tool, error) {
	if agent == "" {
		return nil, errors.New("agenttool: Handoff needs the name of an agent")
	}
	var own HandoffOptions
	if o != nil {
		own = *o
	}
	spec := tool.Spec{Name: own.Name, Description: own.Description, Effect: tool.ReadOnly}
	if spec.Name == "" {
		spec.Name = "transfer_to_" + agent
	}
	if spec.Description == "" {
		spec.Description = fmt.Sprintf("Hands the conversation over to the agent %s, "+
			"who answers the user from then on.", agent)
	}
	type reason struct {
		Reason string `json:"reason,omitempty" jsonschema:"description=Why\\, in a sentence"`
	}
	result := fmt.Sprintf("The conversation is handed over to %s, unless an earlier call of this "+
		"turn hands it to another agent.", agent)
	made, err := tool.Func(spec, func(context.Context, reason) (tool.Result[string], error) {
		return tool.Done(result), nil
	})
	if err != nil {
		return nil, err
	}
	return &handoff{made, agent}, nil
}

// Execute runs the tool, and wishes for the other agent.
func (h *handoff) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	exec, err := h.Tool.Execute(ctx, c)
	exec.HandTo = h.to
	return exec, err
}
