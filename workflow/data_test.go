package workflow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// kept comes to the value that it is given, whatever it is.
func kept(name string) tool.Tool {
	type of struct {
		V json.RawMessage `json:"v"`
	}
	return tool.Must(tool.Func(tool.Spec{Name: name, Effect: tool.Idempotent},
		func(_ context.Context, in of) (tool.Result[json.RawMessage], error) {
			return tool.Done(in.V), nil
		}))
}

// likeReferences are values that would lead somewhere if they stood in a list.
var likeReferences = []string{
	`{"from":"/home/ada"}`,
	`{"from":"/input/q"}`,
	`{"from":"/steps/secret/text"}`,
	`{"from":"/steps/none"}`,
	`{"from":"/steps/a~2"}`,
	`[{"x":{"from":"/steps/secret/text"}}]`,
	`{"from":{"from":"/steps/secret/text"}}`,
	`{"from":"Berlin"}`,
}

// private is a list with a step whose output nothing refers to, and two through
// which the value q of the input goes, to the output.
func private(keep tool.Tool) *workflow.Builder {
	secret := fn("secret", func(context.Context, in) (out, error) { return out{"hunter2"}, nil })
	return workflow.New("private").
		Step("secret", secret, nil, nil).
		Step("first", keep, args{"v": workflow.Input("/q")},
			&workflow.StepOptions{After: []string{"secret"}})
}

// A value that comes from the input, or from a step, is data wherever it goes,
// also if it looks like a reference: it reads no step's output, and breaks
// nothing.
func TestValuesAreNoReferences(t *testing.T) {
	for _, q := range likeReferences {
		keep := kept("keep")
		w := build(t, private(keep).Step("second", keep, args{"v": workflow.From("first", "")}, nil).
			Output(args{"first": workflow.From("first", ""), "second": workflow.From("second", ""),
				"q": workflow.Input("/q"), "all": workflow.Input("")}))
		r := newRig(t, w.Agent())
		got := r.begin(w, json.RawMessage(`{"q":`+q+`}`))
		want := `{"all":{"q":` + q + `},"first":` + q + `,"q":` + q + `,"second":` + q + `}`
		if got.end.Finish != event.FinishStop || got.text != want {
			t.Errorf("%s: %+v, %v: %s", q, got.end, got.err, got.text)
		}
		r.sound()
	}
}

// A model that calls a workflow reads no step by what it writes, and no value
// that it writes makes its call fail.
func TestAModelReadsNoStepByItsInput(t *testing.T) {
	type q struct {
		Q any `json:"q"`
	}
	w := build(t, private(kept("keep")).Output(workflow.From("first", "")))
	asked, err := workflow.Tool[q, json.RawMessage](w, nil)
	must(t, err)
	for _, of := range likeReferences {
		ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{asked},
			Model: fakellm.New(fakellm.Calls("private", `{"q":`+of+`}`), fakellm.Says("Done."))})
		must(t, err)
		r := newRig(t, ag)
		r.say(llm.UserText("Go."))
		if got := r.result(2); got.Error || string(got.Output) != of {
			t.Errorf("%s has come to %s", of, got.Output)
		}
		r.sound()
	}
}
