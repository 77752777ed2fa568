package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// The tools that a workflow's model calls. They are the runtime's, so no layer
// is asked about them.
const (
	stepTool = "workflow_step"
	waitTool = "workflow_wait"
	endTool  = "workflow_end"
	reserved = "workflow_" // begins their names
)

// stepCall begins a step as a handle of its name.
type stepCall struct {
	Step      string          `json:"step"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // as in the list, with references
	Inputs    []inputValue    `json:"inputs,omitempty"`
	// List is the whole list, with the first call of a workflow whose list is
	// its agent's: from then on that list counts, whatever a deploy changes.
	List *List `json:"list,omitzero"`
}

// inputValue is what a reference to the input stands for. It stands beside the
// list's own JSON and not in it, so that no value is taken for a reference.
type inputValue struct {
	Pointer string          `json:"pointer"`
	Value   json.RawMessage `json:"value"`
}

// stepping is the tool that begins steps.
type stepping struct{}

func (stepping) Spec() tool.Spec {
	return tool.Spec{Name: stepTool, Description: "Begins a step of the workflow.",
		Effect: tool.Idempotent}
}

// Acts tells the runner that a call begins a handle.
func (stepping) Acts(arguments json.RawMessage) (action, handle string) {
	var c stepCall
	if strictjson.Read(arguments, &c) != nil {
		return "invalid", ""
	}
	return "spawn", c.Step
}

// Policy tells the runner that nothing is told of steps but by the waits for
// them, and that they end with the workflow.
func (stepping) Policy() tool.HandlePolicy {
	return tool.HandlePolicy{AtEnd: tool.AbortAtEnd, NoSuccess: true, NoFailure: true, NoWaiting: true}
}

// Execute begins a step. It fills in what the step refers to, all at once: the
// outputs are those of other steps' sessions, and stand nowhere else.
func (stepping) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	var in stepCall
	if err := strictjson.Read(c.Arguments, &in); err != nil {
		return tool.Execution{}, err
	}
	args, err := jsontree.Parse(in.Arguments)
	if err != nil {
		return tool.Execution{}, err
	}
	o := &outputs{ctx: ctx, call: c, inputs: in.Inputs}
	if args, err = o.fill(args); err != nil {
		return tool.Execution{}, err
	}
	return tool.Execution{Output: json.RawMessage(`{"begun":true}`),
		Handle: &tool.HandleStep{Name: in.Step, Begin: jsontree.Text(args), Tool: in.Tool}}, nil
}

// outputs are those of the steps that are done, with what a call has of the
// workflow's input.
type outputs struct {
	ctx    context.Context
	call   tool.Call
	inputs []inputValue
	read   map[string]any // by step, as a tree
}

// fill returns a value of the list with what its references stand for.
func (o *outputs) fill(v any) (any, error) {
	return fill(v, func(pointer string) (any, error) {
		step, rest, err := stepOf(pointer)
		switch {
		case err != nil:
			return nil, err
		case step == "":
			return o.input(pointer)
		}
		out, err := o.of(step)
		if err != nil {
			return nil, err
		}
		found, err := at(out, rest)
		if err != nil {
			return nil, fmt.Errorf("it refers to %q, and in what step %q came to %w", pointer, step, err)
		}
		return found, nil
	})
}

// input returns what a reference to the input stands for.
func (o *outputs) input(pointer string) (any, error) {
	for i := range o.inputs {
		if o.inputs[i].Pointer == pointer {
			return jsontree.Parse(o.inputs[i].Value)
		}
	}
	return nil, fmt.Errorf("it refers to %q, and the call has no value for that", pointer)
}

// of returns the output of a step.
func (o *outputs) of(step string) (any, error) {
	if v, known := o.read[step]; known {
		return v, nil
	}
	host, err := o.call.Handles()
	if err != nil {
		return nil, err
	}
	h, err := host.Handle(o.ctx, o.call, step)
	if err != nil {
		return nil, err
	}
	if h.State != tool.HandleStopped || h.Status != string(done) {
		return nil, fmt.Errorf("it refers to step %q, which is not done", step)
	}
	v, err := jsontree.Parse(h.Output)
	if err == nil {
		if o.read == nil {
			o.read = map[string]any{}
		}
		o.read[step] = v
	}
	return v, err
}

// isReserved reports whether a tool's name is one of the runtime's.
func isReserved(name string) bool {
	return strings.HasPrefix(name, reserved) || name == "await"
}
