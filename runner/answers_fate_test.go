package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// An answer that was accepted as a call's output, and which a layer then asks about, is superseded if the call ends otherwise.
func TestAnswerThatALayerHoldsBack(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(r *rig, at *clock, gate tool.Pause)
		status event.Status
		fate   session.Fate
	}{
		"approved": {func(r *rig, _ *clock, gate tool.Pause) { r.answer(runner.Approve(gate.ID, "ada", "")) }, event.Done, ""},
		"denied": {func(r *rig, _ *clock, gate tool.Pause) { r.answer(runner.Deny(gate.ID, "ada", "")) }, event.Denied,
			session.Superseded},
		"expired": {func(r *rig, at *clock, _ tool.Pause) { at.pass(8 * 24 * time.Hour) }, event.Expired, session.Superseded},
		"cancelled": {func(r *rig, _ *clock, gate tool.Pause) {
			_, err := r.Cancel(r.t.Context(), chat, gate.Call, "ada", "")
			must(r.t, err)
		}, event.Cancelled, session.Superseded},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			at := newClock()
			release := interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
				if c.Answer == nil {
					return interceptor.Verdict{Ruling: interceptor.Allow}, nil
				}
				return interceptor.Verdict{}, nil
			}})
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)}, Interceptors: interceptor.Chain{release},
				Model: messages(calls("deploy", `{"text":"job-1"}`), says("I see.")),
			}, &rigOptions{memory: true, session: &session.Options{Now: at.now}})
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			gate := r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishPaused).pause("deploy")
			c.end(r, at, gate)
			r.carryOn().finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if st.Settled != c.status || st.Receipts[0].Kind != session.KindComplete || st.Receipts[0].Fate != c.fate {
				t.Errorf("it settled as %s, and the answer's receipt is %+v", st.Settled, st.Receipts[0])
			}
		})
	}
}
