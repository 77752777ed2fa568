package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// endCall ends a workflow: with Output, or with all Steps, or as failed.
type endCall struct {
	Output json.RawMessage `json:"output,omitzero"` // with references to what is there
	Inputs []inputValue    `json:"inputs,omitempty"`
	Steps  []endStep       `json:"steps,omitempty"`
	Failed string          `json:"failed,omitzero"` // the step by which it fails
	Why    string          `json:"why,omitzero"`    // empty: that step's session tells
	// Back are the steps that were taken back, in that order, and NotBack those
	// that could not be.
	Back    []string `json:"back,omitempty"`
	NotBack []string `json:"notBack,omitempty"`
	// Again: it has failed before, and Why is all that was said then.
	Again bool `json:"again,omitzero"`
}

type endStep struct {
	Step   string `json:"step"`
	Status status `json:"status"`
	Why    string `json:"why,omitzero"`
}

// ending is the tool that makes the output, or fails the run.
type ending struct{}

func (ending) Spec() tool.Spec {
	return tool.Spec{Name: endTool, Description: "Ends the workflow.", Effect: tool.ReadOnly}
}

// Acts tells the runner that a call is none that layers are asked about.
func (ending) Acts(json.RawMessage) (action, handle string) { return "end", "" }

func (ending) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	var in endCall
	if err := strictjson.Read(c.Arguments, &in); err != nil {
		return tool.Execution{}, err
	}
	o := &outputs{ctx: ctx, call: c, inputs: in.Inputs}
	switch {
	case in.Again:
		return tool.Execution{}, tool.Fatal(errors.New(in.Why))
	case in.Failed != "":
		return tool.Execution{}, o.failure(&in)
	case len(in.Output) > 0:
		v, err := jsontree.Parse(in.Output)
		if err == nil {
			v, err = o.fill(v)
		}
		if err != nil {
			if ctx.Err() != nil {
				return tool.Execution{}, err
			}
			return tool.Execution{}, tool.Fatal(fmt.Errorf("the output can't be made: %w", err))
		}
		return tool.Execution{Output: jsontree.Text(v)}, nil
	}
	all := &jsontree.Object{}
	for _, s := range in.Steps {
		one := jsontree.New("status", string(s.Status))
		switch s.Status {
		case done:
			v, err := o.of(s.Step)
			if err != nil {
				return tool.Execution{}, err
			}
			one.Set("output", v)
		case skipped:
		default:
			why, err := o.why(s.Step, s.Why)
			if err != nil {
				return tool.Execution{}, err
			}
			one.Set("error", why)
		}
		all.Set(s.Step, one)
	}
	return tool.Execution{Output: all.Raw()}, nil
}

// failure is the error that the run ends with.
func (o *outputs) failure(in *endCall) error {
	why, err := o.why(in.Failed, in.Why)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("step %q: %s", in.Failed, why)
	if len(in.Back)+len(in.NotBack) > 0 && !strings.HasSuffix(text, ".") {
		text += "."
	}
	if len(in.Back) > 0 {
		text += " Taken back: " + strings.Join(in.Back, ", ") + "."
	}
	if len(in.NotBack) > 0 {
		text += " Could not be taken back: " + strings.Join(in.NotBack, ", ") + "."
	}
	return tool.Fatal(errors.New(text))
}

// maxWhy is how much of a step's error is told, in bytes.
const maxWhy = 2 << 10

// why returns what went wrong in a step. Known is what is known of one that was
// not begun.
func (o *outputs) why(step, known string) (string, error) {
	if known != "" {
		return excerpt.To(known, maxWhy), nil
	}
	host, err := o.call.Handles()
	if err != nil {
		return "", err
	}
	h, err := host.Handle(o.ctx, o.call, step)
	switch {
	case errors.Is(err, tool.ErrUnknownHandle):
		return "it was not begun", nil
	case err != nil:
		return "", err
	}
	return excerpt.To(plain(h.Output), maxWhy), nil
}
