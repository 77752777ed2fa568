package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/tool"
)

// ToolOptions configure a tool of Tool. Nil means the defaults.
type ToolOptions struct {
	// Name is the tool's name; default: the workflow's.
	Name        string
	Description string
	// Timeout is how long the workflow may take. Then it is stopped, and the call
	// has expired. Zero: no bound.
	Timeout time.Duration
}

// nested is a tool whose calls a workflow works on.
type nested struct {
	tool.Tool
	agent *agent.Agent
}

// Unwrap returns the tool without the workflow.
func (n *nested) Unwrap() tool.Tool { return n.Tool }

// Nests returns the workflow's agent, for the runner, which drives it.
func (n *nested) Nests() *agent.Agent { return n.agent }

// anyJSON is the schema of a last message that is JSON.
var anyJSON = json.RawMessage(`{}`)

// Tool returns a tool of which each call is the workflow: In is its input, and
// its output has to be JSON of Out. The caller's runner drives it; it need not
// be among runner.Options.Agents. The workflow's own calls have no limit and
// don't count as the caller's; tokens that agents in it use do.
func Tool[In, Out any](w *Workflow, o *ToolOptions) (tool.Tool, error) {
	if o == nil {
		o = &ToolOptions{}
	}
	own := *o
	if own.Timeout < 0 {
		return nil, fmt.Errorf("workflow %q: ToolOptions.Timeout is %v, which is negative", w.list.Name,
			own.Timeout)
	}
	spec := tool.Spec{Name: cmp.Or(own.Name, w.list.Name), MayPause: true, Effect: tool.Idempotent,
		Description: cmp.Or(own.Description, fmt.Sprintf("Runs the workflow %s.", w.list.Name))}
	var format json.RawMessage // of Out, once the tool is made
	made, err := tool.Func(spec, func(_ context.Context, in In) (tool.Result[Out], error) {
		m, err := w.Message(in)
		if err != nil {
			return nil, err
		}
		return tool.Pending[Out](tool.Await{Reason: tool.ReasonAgent, Timeout: own.Timeout,
			Child: &tool.Child{Agent: w.list.Name, Message: m, Schema: format, Planned: true}}), nil
	})
	if err != nil {
		return nil, fmt.Errorf("workflow %q: %w", w.list.Name, err)
	}
	r, err := tool.NewRegistry([]tool.Tool{made}, nil)
	if err != nil {
		return nil, fmt.Errorf("workflow %q: %w", w.list.Name, err)
	}
	told, _ := r.Spec(spec.Name)
	switch t := types(node(told.Output)); {
	case len(t) == 1 && t[0] == "object":
		format = told.Output
	case len(t) != 1 || t[0] != "string":
		format = anyJSON
	}
	return &nested{made, w.agent}, nil
}
