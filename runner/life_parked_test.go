package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// parkedRig is a rig whose call to refund was approved after a deploy took the
// tool away; its sibling is done.
func parkedRig(t *testing.T, n *counter,
	o *rigOptions) (r *rig, p tool.Pause, without, with []tool.Tool) {
	t.Helper()
	audit := instant("audit", tool.Once, n)
	without, with = []tool.Tool{audit}, []tool.Tool{audit, instant("refund", tool.Once, n)}
	r = newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"order-1"}`).And("audit",
			`{"text":"log"}`), fakellm.Says("I see.")),
		Tools: with,
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Policy: func(_ context.Context, c tool.Call) (v interceptor.Verdict, err error) {
				if c.Tool == "audit" {
					v.Ruling = interceptor.Allow
				}
				return v, nil
			},
		})},
	}, o)
	p = r.say("Refund it.").finished(event.FinishPaused).pause("refund")
	r.config.Tools = without
	r.restart()
	return r, p, without, with
}

// TestRemovedToolParks: a call whose tool was removed while it waited is
// neither lost nor run nor silent, and goes on by itself when the tool is back.
func TestRemovedToolParks(t *testing.T) {
	var n counter
	r, p, _, with := parkedRig(t, &n, nil)
	run := r.answer(runner.Approve(p.ID, "bob", "")).finished(event.FinishPaused)
	if len(run.end.Parked) != 1 || run.end.Parked[0].Tool != "refund" ||
		run.end.Parked[0].Call != p.Call || len(run.end.Pending) != 0 {
		t.Errorf("the run ended with %+v", run.end)
	}
	told := 0
	for _, ev := range run.events {
		if ev, ok := ev.(event.Parked); ok && ev.Tool == "refund" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
	got := r.transcript()
	if got.Finish != event.FinishPaused || len(got.Parked) != 1 || got.Parked[0].Tool != "refund" ||
		n.get("refund") != 0 {
		t.Errorf("it is shown as %q with %+v; the body was entered %d times", got.Finish,
			got.Parked, n.get("refund"))
	}
	st, err := r.Call(t.Context(), chat, p.Call, user)
	must(t, err)
	if st.Parked.IsZero() || st.Settled != "" {
		t.Errorf("the call is shown as %+v", st)
	}
	r.restart() // still without it
	r.carryOn().finished(event.FinishPaused)

	r.config.Tools = with
	r.restart()
	must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
	if out := r.result(p.Call); n.get("refund") != 1 ||
		string(out.Output) != string(text("order-1")) {
		t.Errorf("refund ran %d times; the model reads %s", n.get("refund"), out.Output)
	}
	if got := r.transcript(); got.Finish != event.FinishStop || len(got.Parked) != 0 ||
		n.get("audit") != 1 {
		t.Errorf("it is shown as %q, with %+v; audit ran %d times", got.Finish,
			got.Parked, n.get("audit"))
	}
	r.acceptable()
	r.indexEmpty()
}

// indexEmpty fails the test if anything is left in the index of parked
// sessions.
func (r *rig) indexEmpty() {
	r.t.Helper()
	page, err := r.kv.Scan(r.t.Context(), kvstore.Range{Prefix: kvstore.Key("n")})
	must(r.t, err)
	if len(page.Entries) > 0 {
		r.t.Errorf("%q is left in the index", page.Entries[0].Key)
	}
}

// TestWaysToEndAParkedCall: each settles it without its tool, and the run goes
// on.
func TestWaysToEndAParkedCall(t *testing.T) {
	for name, test := range map[string]struct {
		end    func(r *rig, p tool.Pause)
		status event.Status
		says   string
	}{
		"cancelled": {func(r *rig, p tool.Pause) {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "bob", "too late")
			must(r.t, err)
			r.carryOn().finished(event.FinishStop)
		}, event.Cancelled, "Cancelled: too late. The tool was not run."},
		"failed": {func(r *rig, p tool.Pause) {
			r.answer(runner.Fail(p.Call+".2", "bob",
				"there is no refund any more", false)).finished(event.FinishStop)
		}, event.Failed, "there is no refund any more"},
		"with its session": {func(r *rig, p tool.Pause) {
			must(r.t, r.CancelSession(r.t.Context(), chat, "bob", "all over"))
		}, event.Cancelled, "all over"},
		"superseded": {func(r *rig, p tool.Pause) {
			run := watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText("Never mind."), nil))
			var pending *session.PendingError
			if !errors.As(run.err, &pending) || len(pending.Parked) != 1 ||
				!strings.Contains(run.err.Error(), "its tool refund, which is gone") {
				r.t.Errorf("a message is told %v", run.err)
			}
			watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText("Never mind."),
				&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
		}, event.Denied, "Denied: the user sent another message while the call waited for its tool, which is gone. The tool was not run."},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, p, _, _ := parkedRig(t, &n, &rigOptions{memory: true})
			r.answer(runner.Approve(p.ID, "bob", "")).finished(event.FinishPaused)
			test.end(r, p)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if st.Settled != test.status || !strings.Contains(string(st.Output), test.says) ||
				n.get("refund") != 0 {
				t.Errorf("it ended as %s with %s; the body was entered %d times", st.Settled,
					st.Output, n.get("refund"))
			}
			r.acceptable()
			r.indexEmpty()
		})
	}
}

// TestDeniedWithoutItsTool: a denial needs no tool.
func TestDeniedWithoutItsTool(t *testing.T) {
	var n counter
	r, p, _, _ := parkedRig(t, &n, nil)
	r.answer(runner.Deny(p.ID, "bob", "wrong customer")).finished(event.FinishStop)
	st, err := r.Call(t.Context(), chat, p.Call, user)
	must(t, err)
	if st.Settled != event.Denied || st.Actor != "bob" || !strings.Contains(string(st.Output),
		"was not run. Do not try again unless you are told to. Reason: wrong customer") {
		t.Errorf("it ended as %s by %q with %s", st.Settled, st.Actor, st.Output)
	}
}

// TestInventedNamesSettleAtOnce: also where the process dies before they do.
func TestInventedNamesSettleAtOnce(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("refnud", `{"text":"a"}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{instant("refund", tool.Once, &n)},
	}, nil)
	for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		if _, ok := ev.(event.Call); ok {
			break
		}
	}
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if out := r.outputs()[0]; !strings.Contains(out, `There is no tool \"refnud\"`) {
		t.Errorf("the model reads %s", out)
	}
}

// TestClaimedCallOfARemovedTool: what became of it only its tool can tell. So
// it is asked when it is back, rather than given up before.
func TestClaimedCallOfARemovedTool(t *testing.T) {
	var n counter
	pay, entered := stuck("pay", &n)
	r := newRig(t, oneCall(pay), nil)
	ended := r.begin("Pay.")
	<-entered
	r.config.Tools = nil
	r.restart()
	ended()
	r.carryOn().finished(event.FinishPaused)
	if n.get("asked") != 0 || len(r.transcript().Parked) != 1 {
		t.Errorf("it was asked %d times, and is shown as %+v",
			n.get("asked"), r.transcript().Parked)
	}
	r.config.Tools = []tool.Tool{pay}
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if out := r.outputs()[0]; n.get("asked") != 1 || out != string(text("done once")) {
		t.Errorf("it was asked %d times; the model reads %s", n.get("asked"), out)
	}
}

// TestParkedForATime: by option a parked call fails, once, although no program
// has its tool.
func TestParkedForATime(t *testing.T) {
	var n counter
	cl := newClock()
	r, p, _, _ := parkedRig(t, &n, &rigOptions{
		session: &session.Options{Now: cl.now},
		runner:  &runner.Options{Logger: slog.New(slog.DiscardHandler), ParkedTimeout: time.Hour},
	})
	r.answer(runner.Approve(p.ID, "bob", "")).finished(event.FinishPaused)
	cl.pass(59 * time.Minute)
	r.restart()
	r.carryOn().finished(event.FinishPaused)
	cl.pass(time.Minute)
	must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
	if out := r.result(p.Call); !strings.Contains(string(out.Output),
		"The tool refund is gone, and did not come back in time. The tool was not run.") {
		t.Errorf("the model reads %s", out.Output)
	}
	r.indexEmpty()
}
