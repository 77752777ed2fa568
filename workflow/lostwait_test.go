package workflow_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// failWait answers the open wait of a workflow as failed, by hand.
func (r *rig) failWait() {
	r.t.Helper()
	for p, err := range r.Pending(r.t.Context(), session.PauseFilter{Session: here}, ada) {
		must(r.t, err)
		if p.Tool == "workflow_wait" {
			_, err := r.Resume(r.t.Context(), here, runner.Fail(p.ID, ada, "by hand", false))
			must(r.t, err)
			return
		}
	}
	r.t.Fatal("the workflow waits for nothing")
}

// A wait that fails tells nothing of its steps. They are ended before any is
// taken back.
func TestAWaitThatFailsLeavesNoStepRunning(t *testing.T) {
	var r *rig
	while := ""
	refund := fn("refund", func(context.Context, in) (out, error) {
		while = r.step("charge").Status
		return out{}, nil
	})
	w := build(t, workflow.New("pays").
		Step("charge", asks("charge"), args{"text": "?"}, &workflow.StepOptions{Compensate: "refund"}).
		Step("refund", refund, nil, nil))
	r = newRig(t, w.Agent())
	r.begin(w, nil)
	r.failWait()
	got := r.carryOn()
	if got.end.Finish != event.FinishFailed || !strings.Contains(got.end.Why, "Taken back: charge.") {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	if while != "cancelled" {
		t.Errorf("it was taken back while it was %q", while)
	}
	r.sound()
}

// A step whose failure ends no workflow is waited for once more.
func TestAWaitThatFailsOnceIsRepeated(t *testing.T) {
	for fails, want := range []string{`{"text":"yes"}`, `{"text":"yes"}`, "unknown"} {
		w := build(t, workflow.New("asks").Step("a", asks("ask"), args{"text": "?"},
			&workflow.StepOptions{OnFailure: workflow.ContinueOnFailure}))
		r := newRig(t, w.Agent())
		got := r.begin(w, nil)
		for range fails {
			r.failWait()
			got = r.carryOn()
		}
		if fails < 2 {
			r.answer("a", "yes")
			got = r.carryOn()
		}
		if got.end.Finish != event.FinishStop || !strings.Contains(got.text, want) {
			t.Errorf("after %d failures: %+v: %s", fails, got.end, got.text)
		}
		r.sound()
	}
}

// A workflow that is cancelled, and carried on, ends as one that has failed,
// also where its step has come to its end all the same. That is taken back
// then.
func TestACancelledStepThatIsDoneIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refunds := 0
		charge := tool.Must(tool.Func(tool.Spec{Name: "charge", Effect: tool.Once},
			func(ctx context.Context, _ in) (tool.Result[out], error) {
				<-ctx.Done()
				return tool.Done(out{"charged"}), nil
			}))
		refund := fn("refund", func(context.Context, in) (out, error) { refunds++; return out{}, nil })
		w := build(t, workflow.New("pays").
			Step("charge", charge, nil, &workflow.StepOptions{Compensate: "refund"}).
			Step("refund", refund, nil, nil))
		r := newRig(t, w.Agent())
		over := make(chan run)
		go func() { over <- r.begin(w, nil) }()
		synctest.Wait()
		must(t, r.CancelSession(t.Context(), here, ada, "no more"))
		<-over
		got := r.carryOn()
		if got.end.Finish != event.FinishFailed || refunds != 1 ||
			!strings.Contains(got.end.Why, "Taken back: charge.") {
			t.Errorf("%d refunds: %+v, %v", refunds, got.end, got.err)
		}
		r.sound()
	})
}
