package workflow_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

func bad(name string) tool.Tool {
	return fn(name, func(context.Context, in) (out, error) { return out{}, errBroken })
}

// A failed step ends the workflow: what runs is ended, what waits for it is not
// begun, and the run tells why. To carry it on changes nothing.
func TestAFailedStepEndsTheWorkflow(t *testing.T) {
	w := build(t, workflow.New("fails").
		Step("waits", asks("ask"), args{"text": "?"}, nil).
		Step("breaks", bad("bad"), nil, nil).
		Step("never", echo("echo"), args{"text": workflow.From("breaks", "/text")}, nil))
	r := newRig(t, w.Agent())
	got := r.begin(w, nil)
	if got.end.Finish != event.FinishFailed ||
		!strings.Contains(got.end.Why, `step "breaks": the machine is broken`) {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	if h := r.step("waits"); h.Status != "cancelled" {
		t.Errorf("what ran is %+v", h)
	}
	if _, err := r.Fetch(t.Context(), here, "never", ada); err == nil {
		t.Error("a step began whose input never came")
	}
	if got := r.carryOn(); got.end.Finish != event.FinishFailed ||
		!strings.Contains(got.end.Why, "the machine is broken") {
		t.Errorf("carried on: %+v, %v", got.end, got.err)
	}
	r.sound()
}

// A step is begun again as often as its list tells, after delays that double,
// and that a restart neither shortens nor begins anew.
func TestAStepIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		begun := time.Now()
		flaky := fn("flaky", func(context.Context, in) (out, error) {
			tries = append(tries, time.Since(begun))
			if len(tries) < 4 {
				return out{}, errBroken
			}
			return out{"at last"}, nil
		})
		w := build(t, workflow.New("again").
			Step("a", flaky, nil, &workflow.StepOptions{
				Retry: &workflow.Retry{Times: 3, DelayMs: 1000, MostMs: 3000}}).
			Step("b", asks("ask"), args{"text": "?"}, nil).
			Output(workflow.From("a", "/text")))
		r := newRig(t, w.Agent())
		r.begin(w, nil)
		time.Sleep(500 * time.Millisecond)
		r.restart(w.Agent())
		for range 3 { // each time it waits, nothing is held
			time.Sleep(10 * time.Millisecond)
			r.carryOn()
			time.Sleep(1490 * time.Millisecond)
		}
		for range 5 {
			r.carryOn()
			time.Sleep(time.Second)
		}
		r.answer("b", "yes")
		if got := r.carryOn(); got.text != "at last" {
			t.Errorf("%+v, %v: %s", got.end, got.err, got.text)
		}
		if len(tries) != 4 {
			t.Fatalf("%v", tries)
		}
		for i, least := range []time.Duration{0, 1, 2, 3} {
			if i > 0 && tries[i]-tries[i-1] < least*time.Second {
				t.Errorf("the tries are at %v", tries)
			}
		}
		r.sound()
	})
}

// One that fails each time ends the workflow by its last error.
func TestTriesEnd(t *testing.T) {
	var n atomic.Int32
	w := build(t, workflow.New("never").Step("a",
		fn("bad", func(context.Context, in) (out, error) { n.Add(1); return out{}, errBroken }), nil,
		&workflow.StepOptions{Retry: &workflow.Retry{Times: 2}}))
	r := newRig(t, w.Agent())
	got := r.begin(w, nil)
	if got.end.Finish != event.FinishFailed || n.Load() != 3 {
		t.Errorf("%d tries, %+v", n.Load(), got.end)
	}
	r.sound()
}

// What is done is taken back, the last one first; what runs and can be taken
// back is waited for.
func TestStepsAreTakenBack(t *testing.T) {
	var mu sync.Mutex
	var deeds []string
	deed := func(name string) tool.Tool {
		return fn(name, func(_ context.Context, v in) (out, error) {
			mu.Lock()
			defer mu.Unlock()
			deeds = append(deeds, name+" "+v.Text)
			return out{name + "-1"}, nil
		})
	}
	back := func(by string, after ...string) *workflow.StepOptions {
		return &workflow.StepOptions{Compensate: by, After: after}
	}
	undo := deed("undo")
	w := build(t, workflow.New("saga").
		Step("flight", deed("fly"), nil, back("flight-back")).
		Step("hotel", deed("stay"), nil, back("hotel-back", "flight")).
		Step("car", asks("ask"), args{"text": "car?"}, back("car-back", "hotel")).
		Step("pay", bad("bad"), nil, &workflow.StepOptions{After: []string{"hotel"}}).
		Step("flight-back", undo, args{"text": workflow.From("flight", "/text")}, nil).
		Step("hotel-back", undo, args{"text": workflow.From("hotel", "/text")}, nil).
		Step("car-back", bad("broken"), args{"text": workflow.From("car", "/text")}, nil))
	r := newRig(t, w.Agent())
	if got := r.begin(w, nil); got.end.Finish != event.FinishPaused {
		t.Fatalf("it doesn't wait for what can be taken back: %+v, %v", got.end, got.err)
	}
	r.restart(w.Agent())
	r.answer("car", "a car")
	got := r.carryOn()
	want := "fly |stay |undo stay-1|undo fly-1"
	if s := strings.Join(deeds, "|"); s != want {
		t.Errorf("done was %q, not %q", s, want)
	}
	if got.end.Finish != event.FinishFailed || !strings.Contains(got.end.Why,
		"Taken back: hotel, flight. Could not be taken back: car.") {
		t.Errorf("%+v", got.end)
	}
	r.sound()
}

// A workflow that comes to its end takes nothing back.
func TestNothingIsTakenBackOfASuccess(t *testing.T) {
	w := build(t, workflow.New("fine").
		Step("a", echo("echo"), args{"text": "x"}, &workflow.StepOptions{Compensate: "z"}).
		Step("z", bad("bad"), args{"text": workflow.From("a", "/text")}, nil))
	r := newRig(t, w.Agent())
	if got := r.begin(w, nil); got.text != `{"a":{"status":"done","output":{"text":"x"}}}` {
		t.Errorf("%+v: %s", got.end, got.text)
	}
	r.sound()
}

// A step that asks a model fails: a workflow has none.
func TestAStepThatAsksAModelFails(t *testing.T) {
	wonder := tool.Must(tool.Func(tool.Spec{Name: "wonder", MayPause: true},
		func(context.Context, in) (tool.Result[out], error) {
			return tool.Pending[out](tool.Await{Reason: tool.ReasonAssistant, Prompt: "How?"}), nil
		}))
	w := build(t, workflow.New("wonders").Step("a", wonder, nil, nil))
	r := newRig(t, w.Agent())
	if got := r.begin(w, nil); got.end.Finish != event.FinishFailed {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	r.sound()
}

// An output that lacks what another step refers to is that step's failure.
func TestAReferenceThatIsNotThereFailsItsStep(t *testing.T) {
	free := tool.Must(tool.Func(tool.Spec{Name: "free"},
		func(context.Context, in) (tool.Result[map[string]any], error) {
			return tool.Done(map[string]any{"x": 1}), nil
		}))
	w := build(t, workflow.New("lacks").
		Step("a", free, nil, nil).
		Step("b", echo("echo"), args{"text": workflow.From("a", "/y")}, nil))
	r := newRig(t, w.Agent())
	got := r.begin(w, nil)
	if got.end.Finish != event.FinishFailed ||
		!strings.Contains(got.end.Why, `it refers to "/steps/a/y"`) {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	r.sound()
}

// A call whose workflow fails has failed with what went wrong in it.
func TestACallTellsHowItsWorkflowFailed(t *testing.T) {
	w := build(t, workflow.New("sub").Step("a", bad("bad"), nil, nil))
	sub, err := workflow.Tool[in, out](w, nil)
	must(t, err)
	outer := build(t, workflow.New("outer").Step("b", sub, nil, nil))
	r := newRig(t, outer.Agent())
	got := r.begin(outer, nil)
	want := `step "b": The workflow failed: step "a": the machine is broken.`
	if got.end.Finish != event.FinishFailed || !strings.Contains(got.end.Why, want) {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	r.sound()
}
