package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// One write of a child's drive fails, after the caller has left, and there is no
// worker. The child is tried again.
func TestAChildGoesOnAfterAFailedWrite(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			note := does(tool.Spec{Name: "note", Effect: tool.Idempotent},
				func(context.Context, string) (tool.Result[textOut], error) {
					<-gate
					return tool.Done(textOut{"noted"}), nil
				})
			helper := nestedTool(t, "helper", fakellm.New(
				fakellm.Calls("note", `{"text":"x"}`), fakellm.Says("x")), note)
			r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
				fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I know."))},
				&rigOptions{memory: true, runner: quietRunner})
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
				must(t, err)
				if e, ok := ev.(event.Nested); ok {
					if _, ok := e.Event.(event.Call); ok {
						break // the caller leaves
					}
				}
			}
			synctest.Wait()
			r.faults.Add(faultkv.FailAt(r.faults.Applies() + n))
			close(gate)
			time.Sleep(time.Minute)
			struck = r.faults.Struck() > 0
			st, err := r.store.Load(t.Context(), chat)
			if must(t, err); st.Open() > 0 {
				t.Errorf("write %d fails, and the child is given up", n)
			}
			must(t, r.Close())
		})
	}
}

// The model of a nested agent is to be asked again in hours. The run ends as
// delayed, and says until when, unless a person is asked beside it. The runner
// asks it then, also where no caller carries the session on.
func TestADelayedNestedAgent(t *testing.T) {
	for name, asks := range map[string]bool{"alone": false, "beside a question": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := &flaky{failures: 1, after: 3 * time.Hour}
				helper := nestedTool(t, "helper", model)
				turn, want := fakellm.Calls("helper", `{"what":"Find it."}`), event.FinishDelayed
				if asks {
					turn, want = turn.And("ask", `{}`), event.FinishPaused
				}
				r := newRig(t, agent.Config{Tools: []tool.Tool{helper, roomTool()},
					Model: fakellm.New(turn, fakellm.Says("I know."))}, &rigOptions{memory: true})
				begun := time.Now()
				s := r.say("Go.").finished(want)
				if until := s.end.Until.Sub(begun); !asks && (until != 3*time.Hour || s.end.Why == "") {
					t.Errorf("it is delayed for %v: %q", until, s.end.Why)
				}
				time.Sleep(3*time.Hour - time.Minute)
				if n := model.times(); n != 1 {
					t.Errorf("the model is asked %d times before its time", n)
				}
				time.Sleep(2 * time.Minute)
				if n := model.times(); n != 2 {
					t.Errorf("the model is asked %d times", n)
				}
				if !asks {
					r.carryOn().finished(event.FinishStop)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// A nested agent's call is cancelled, and the process is killed at any write of
// that. The user's next message begins another run, and there is no worker. The
// session below comes to its end all the same.
func TestALeftChildEndsAfterACrashAndAMessage(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		synctest.Test(t, func(t *testing.T) {
			helper := nestedTool(t, "helper", fakellm.New(
				fakellm.Calls("ask", `{}`), fakellm.Says("x")), roomTool())
			r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
				fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I see."),
				fakellm.Says("Sure."))}, &rigOptions{memory: true, runner: quietRunner})
			p := r.say("Go.").finished(event.FinishPaused).pause("helper")
			r.faults.Add(faultkv.LoseAt(r.faults.Applies() + n).AndDie())
			_, _ = r.Cancel(t.Context(), chat, p.Call, user, "no")
			synctest.Wait()
			struck = r.faults.Struck() > 0
			r.restart()
			r.say("Next.").finished(event.FinishStop)
			synctest.Wait()
			st, err := r.store.Load(t.Context(), core.ChildID(p.ID))
			if must(t, err); st.Halt == nil || st.Open() > 0 {
				t.Errorf("killed at write %d, the session below is left open", n)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}
