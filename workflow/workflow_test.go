package workflow_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

type args = map[string]any

func build(t *testing.T, b *workflow.Builder) *workflow.Workflow {
	t.Helper()
	w, err := b.Build(nil)
	must(t, err)
	return w
}

// begin begins a workflow, and carries it on until it ends or waits.
func (r *rig) begin(w *workflow.Workflow, input any) run {
	r.t.Helper()
	m, err := w.Message(input)
	must(r.t, err)
	return r.say(m)
}

// What a step refers to is filled in: the input, and the outputs of others, also
// digits that no float has.
func TestStepsReferToInputAndOutputs(t *testing.T) {
	echoes := echo("echo")
	number := tool.Must(tool.Func(tool.Spec{Name: "number"},
		func(_ context.Context, v struct{ N uint64 }) (tool.Result[struct{ N uint64 }], error) {
			return tool.Done(v), nil
		}))
	w := build(t, workflow.New("letters").
		Step("first", echoes, args{"text": workflow.Input("/who/0")}, nil).
		Step("second", echoes, args{"text": workflow.From("first", "/text")}, nil).
		Step("n", number, args{"N": workflow.Input("/n")}, nil).
		Step("m", number, args{"N": workflow.From("n", "/N")}, nil).
		Output(args{"said": workflow.From("second", "/text"), "all": []any{workflow.From("m", "")},
			"from": args{"from": "Berlin"}}))
	r := newRig(t, w.Agent())
	got := r.begin(w, args{"who": []string{"Ada"}, "n": uint64(1)<<63 + 1})
	want := `{"all":[{"N":9223372036854775809}],"from":{"from":"Berlin"},"said":"Ada"}`
	if got.end.Finish != event.FinishStop || got.text != want {
		t.Errorf("%s, %v: %s", got.end.Finish, got.err, got.text)
	}
	r.sound()
}

// Without an output of its own a workflow tells of each step.
func TestAWorkflowTellsOfItsSteps(t *testing.T) {
	bad := fn("bad", func(context.Context, in) (out, error) { return out{}, errBroken })
	w := build(t, workflow.New("plain").
		Step("a", echo("echo"), args{"text": "x"}, nil).
		Step("b", bad, nil, &workflow.StepOptions{OnFailure: workflow.ContinueOnFailure}).
		Step("c", asks("ask"), args{"text": workflow.From("b", "/text")}, nil))
	r := newRig(t, w.Agent())
	got := r.begin(w, nil)
	want := `{"a":{"status":"done","output":{"text":"x"}},` +
		`"b":{"status":"failed","error":"the machine is broken"},"c":{"status":"skipped"}}`
	if got.text != want {
		t.Errorf("%s, %v: %s", got.end.Finish, got.err, got.text)
	}
	r.sound()
}

// C after A doesn't wait for B.
func TestIndependentStepsRunBesideEachOther(t *testing.T) {
	ask := asks("ask")
	w := build(t, workflow.New("beside").
		Step("a", ask, args{"text": "a?"}, nil).
		Step("b", ask, args{"text": "b?"}, nil).
		Step("c", echo("echo"), args{"text": workflow.From("a", "/text")}, nil).
		Step("d", ask, args{"text": workflow.From("c", "/text")},
			&workflow.StepOptions{After: []string{"b"}}))
	r := newRig(t, w.Agent())
	if got := r.begin(w, nil); got.end.Finish != event.FinishPaused || len(got.end.Pending) < 2 {
		t.Fatalf("%+v, %v", got.end, got.err)
	}
	r.answer("a", "yes")
	r.carryOn()
	if h := r.step("c"); h.Status != "done" || string(h.Output) != `{"text":"yes"}` {
		t.Errorf("c stands as %+v while b waits", h)
	}
	if _, err := r.Fetch(t.Context(), here, "d", ada); err == nil {
		t.Error("d has begun before b was over")
	}
	r.restart(w.Agent())
	r.answer("b", "no")
	r.carryOn()
	r.answer("d", "end")
	got := r.carryOn()
	if got.end.Finish != event.FinishStop || !strings.Contains(got.text, `"d":{"status":"done"`) {
		t.Errorf("%s, %v: %s", got.end.Finish, got.err, got.text)
	}
	r.sound()
}
