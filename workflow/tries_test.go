package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// The longest delays that are taken are waited out: they neither wrap nor are cut
// short.
func TestTheLongestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		n := 0
		flaky := fn("flaky", func(context.Context, in) (out, error) { n++; return out{}, errBroken })
		w := build(t, workflow.New("slow").Step("a", flaky, nil, &workflow.StepOptions{
			Retry: &workflow.Retry{Times: 3, DelayMs: int(year.Milliseconds()) * 2 / 3,
				MostMs: int(year.Milliseconds())}}))
		r := newRig(t, w.Agent())
		got := r.begin(w, nil)
		for i, d := range []time.Duration{year * 2 / 3, year, year} {
			time.Sleep(d - time.Minute)
			if r.carryOn(); n != i+1 {
				t.Errorf("try %d comes before its time", n)
			}
			time.Sleep(2 * time.Minute)
			if got = r.carryOn(); n != i+2 {
				t.Errorf("after %v there were %d tries: %+v", d, n, got.end)
			}
		}
		if got.end.Finish != event.FinishFailed {
			t.Errorf("%+v", got.end)
		}
		r.sound()
	})
}

// A step whose body doesn't end in its time may have done its work: it is begun
// again if it has a Retry, and taken back.
func TestAStepThatTimesOutIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, refunds := 0, 0
		charge := tool.Must(tool.Func(tool.Spec{Name: "charge", Effect: tool.Idempotent,
			Timeout: time.Second}, func(ctx context.Context, _ in) (tool.Result[out], error) {
			n++
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		refund := fn("refund", func(context.Context, in) (out, error) { refunds++; return out{}, nil })
		w := build(t, workflow.New("pays").
			Step("charge", charge, nil, &workflow.StepOptions{Compensate: "refund",
				Retry: &workflow.Retry{Times: 1}}).
			Step("refund", refund, nil, nil))
		r := newRig(t, w.Agent())
		got := r.begin(w, nil)
		if got.end.Finish != event.FinishFailed || n != 2 || refunds != 1 ||
			!strings.Contains(got.end.Why, "Taken back: charge.") {
			t.Errorf("%d tries, %d refunds: %+v, %v", n, refunds, got.end, got.err)
		}
		if h := r.step("charge"); h.Status != string(event.TimedOut) {
			t.Errorf("%+v", h)
		}
		r.sound()
	})
}

// What may have been done is taken back, whichever try did it: one whose time was
// over counts though a later one has failed by its own word.
func TestAnEarlierTryIsTakenBack(t *testing.T) {
	const late = "its time is over"
	for _, of := range []struct {
		tries []string // what each comes to; empty: it fails
		back  bool
	}{{[]string{late, ""}, true}, {[]string{"", late}, true}, {[]string{late, "", ""}, true},
		{[]string{"", ""}, false}} {
		t.Run(fmt.Sprintf("%q", of.tries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, refunds := 0, 0
				charge := tool.Must(tool.Func(tool.Spec{Name: "charge", Effect: tool.Idempotent, MayPause: true},
					func(context.Context, in) (tool.Result[out], error) {
						if n++; of.tries[n-1] == late { // a job outside goes on
							return tool.Pending[out](tool.Await{Timeout: time.Minute}), nil
						}
						return nil, errBroken
					}))
				refund := fn("refund", func(context.Context, in) (out, error) { refunds++; return out{}, nil })
				w := build(t, workflow.New("pays").
					Step("charge", charge, nil, &workflow.StepOptions{Compensate: "refund",
						Retry: &workflow.Retry{Times: len(of.tries) - 1}}).
					Step("refund", refund, nil, nil))
				r := newRig(t, w.Agent())
				end := r.begin(w, nil).end
				if end.Finish == event.FinishPaused {
					end = r.works(here)
				}
				told := strings.Contains(end.Why, "Taken back: charge.")
				if end.Finish != event.FinishFailed || n != len(of.tries) ||
					told != of.back || (refunds == 1) != of.back || refunds > 1 {
					t.Errorf("%d tries, %d refunds: %+v", n, refunds, end)
				}
				r.sound()
			})
		})
	}
}
