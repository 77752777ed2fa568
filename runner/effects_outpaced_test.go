package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// atApply has do called right before the n-th Apply from now on.
func (r *rig) atApply(n int, do func()) {
	at := r.faults.Applies() + n
	r.faults.Before(func(c faultkv.Call) {
		if c.Number == at {
			r.faults.Before(nil)
			do()
		}
	})
}

// Whichever write of a run CancelSession comes before, no body is entered once
// it has returned: also where the write is the claim.
func TestNoBodyIsEnteredAfterItsSessionWasCancelled(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		t.Run(fmt.Sprint("before write ", n), func(t *testing.T) {
			struck = false
			var cancelled atomic.Bool
			act := tool.Must(tool.Func(tool.Spec{Name: "act"}, func(context.Context, textIn) (tool.Result[textOut], error) {
				if cancelled.Load() {
					t.Error("the body was entered")
				}
				return tool.Done(textOut{"x"}), nil
			}))
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{act}, Concurrency: 1,
				Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`).And("act", `{"text":"b"}`), fakellm.Says("Done.")),
			}, &rigOptions{memory: true})
			other := r.another()
			r.atApply(n, func() {
				struck = true
				switch err := other.CancelSession(t.Context(), chat, "bob", "enough"); {
				case errors.Is(err, session.ErrUnknownSession):
				default:
					must(t, err)
					cancelled.Store(true)
				}
			})
			want := event.FinishStop
			if s := r.say("Go."); cancelled.Load() {
				want = event.FinishCancelled
				s.finished(want)
			}
			if got := r.transcript().Finish; got != want {
				t.Errorf("the session ended as %q", got)
			}
			r.acceptable()
		})
	}
}

// A superseding message may be overtaken at any of its writes by an actor who
// approves. What is shown as denied then is stored as that.
func TestDenialIsShownWhenItIsStored(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		t.Run(fmt.Sprint("before write ", n), func(t *testing.T) {
			struck = false
			var entered counter
			r := newRig(t, agent.Config{
				Tools:        []tool.Tool{instant("refund", tool.Once, &entered), instant("pay", tool.Once, &entered)},
				Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund", "pay"}})},
				Model: fakellm.New(fakellm.Calls("refund", `{"text":"a"}`).And("pay", `{"text":"b"}`), fakellm.Says("I see."),
					fakellm.Says("Sure.")),
			}, &rigOptions{memory: true})
			p := r.say("Refund and pay.").finished(event.FinishPaused).pause("refund")
			other := r.another()
			r.atApply(n, func() {
				struck = true
				_, err := other.Resume(t.Context(), chat, runner.Approve(p.ID, "eve", ""))
				if err != nil && !errors.Is(err, session.ErrSettled) {
					t.Error(err)
				}
			})
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("No, wait."), &runner.RunOptions{Supersede: true}) {
				must(t, err)
				if ev, ok := ev.(event.Result); ok {
					st, err := other.Call(t.Context(), chat, ev.Result.Call, user)
					if err != nil || ev.Status == event.Denied && st.Settled != event.Denied {
						t.Errorf("%s is shown as %s, and is %s %s, %v", st.Tool, ev.Status, st.Status, st.Settled, err)
					}
				}
			}
			r.acceptable()
		})
	}
}
