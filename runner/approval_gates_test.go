package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestGateRefusals: whatever stops a call at its gate, its body isn't entered,
// its sibling isn't harmed, and the model reads one result that tells what
// happened.
func TestGateRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		refuse func(r *rig, now *clock, p tool.Pause)
		status event.Status
		by     string
		want   string // what the model reads
	}{
		"denied": {func(r *rig, now *clock, p tool.Pause) {
			_, err := r.Resume(r.t.Context(), chat, runner.Deny(p.ID, "bob", "wrong customer"))
			must(r.t, err)
		}, event.Denied, "bob", "The call was refused, and the tool was not run. Do not try again unless you are told to. Reason: wrong customer"},
		"denied without a reason": {func(r *rig, now *clock, p tool.Pause) {
			_, err := r.Resume(r.t.Context(), chat, runner.Deny(p.ID, "bob", ""))
			must(r.t, err)
		}, event.Denied, "bob",
			"The call was refused, and the tool was not run. Do not try again unless you are told to."},
		"cancelled": {func(r *rig, now *clock, p tool.Pause) {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "bob", "no longer wanted")
			must(r.t, err)
		}, event.Cancelled, "bob", "Cancelled: no longer wanted. The tool was not run."},
		"expired": {func(r *rig, now *clock, p tool.Pause) {
			if got := p.Deadline.Sub(p.Since); got != 7*24*time.Hour {
				r.t.Errorf("the approval waits for %v", got)
			}
			now.pass(7 * 24 * time.Hour)
		}, event.Expired, "deadline",
			"Expired. Nobody approved the call before its deadline. The tool was not run."},
		"superseded": {func(r *rig, now *clock, p tool.Pause) {
			watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText("Never mind."),
				&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
		}, event.Denied, user,
			"Denied: the user sent another message instead of an answer. The tool was not run."},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			model := fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`).And("audit",
				`{"text":"log"}`), fakellm.Says("I see."), fakellm.Says("Bye."))
			now := newClock()
			r := newRig(t, gated(&n, model), at(now))
			p := r.say("Refund order 7.").finished(event.FinishPaused).pause("refund")
			test.refuse(r, now, p)
			r.carryOn().finished(event.FinishStop)
			if n.get("refund") != 0 || n.get("audit") != 1 {
				t.Errorf("refund was entered %d times, audit %d times",
					n.get("refund"), n.get("audit"))
			}
			res := r.result(p.Call)
			if want := string(toolbox.Text(test.want)); !res.Error || string(res.Output) != want {
				t.Errorf("the model reads %s, not %s", res.Output, want)
			}
			c, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if c.Settled != test.status || c.Actor != test.by || c.Attempt != 0 {
				t.Errorf("the call ended as %q by %q, in attempt %d", c.Settled, c.Actor, c.Attempt)
			}
			r.acceptable()
			_, err = r.Resume(t.Context(), chat, runner.Approve(p.ID, "eve", "too late"))
			if !errors.Is(err, session.ErrSettled) && !errors.Is(err, session.ErrResumeConflict) {
				t.Errorf("a late approval: %v", err)
			}
		})
	}
}

// TestDeniedByPolicy: no person is asked, and the model reads why.
func TestDeniedByPolicy(t *testing.T) {
	var n counter
	c := gated(&n,
		fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`), fakellm.Says("I see.")))
	c.Interceptors = interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
		Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
			return interceptor.Verdict{Ruling: interceptor.Deny,
				Reason: "no refunds on Fridays"}, nil
		}})}
	r := newRig(t, c, nil)
	res := of[event.Result](r.say("Refund order 7.").finished(event.FinishStop))
	if len(res) != 1 || res[0].Status != event.Denied ||
		!strings.Contains(string(res[0].Result.Output), "no refunds on Fridays") ||
		n.get("refund") != 0 {
		t.Errorf("the result is %v, refund was entered %d times", res, n.get("refund"))
	}
}

// TestPolicies: a policy that can't decide asks a person, who is shown what the
// policy said.
func TestPolicies(t *testing.T) {
	type V = interceptor.Verdict
	for name, test := range map[string]struct {
		policy interceptor.Policy
		want   string // the status of the result, or the prompt
	}{
		"allows": {func(context.Context, tool.Call) (V, error) {
			return V{Ruling: interceptor.Allow}, nil
		}, "done"},
		"denies": {func(context.Context, tool.Call) (V, error) {
			return V{Ruling: interceptor.Deny}, nil
		}, "denied"},
		"asks": {func(context.Context, tool.Call) (V, error) {
			return V{Reason: "a large sum"}, nil
		}, "Run refund? (a large sum)"},
		"errs": {func(context.Context, tool.Call) (V, error) {
			return V{Ruling: interceptor.Allow}, errors.New("no")
		}, "Run refund? (the policy failed)"},
		"panics": {func(context.Context, tool.Call) (V, error) { panic("no") },
			"Run refund? (the policy failed)"},
		"rules by the arguments": {func(_ context.Context, c tool.Call) (V, error) {
			if strings.Contains(string(c.Arguments), "order 7") && c.User == user &&
				c.Session == chat && c.Effect == tool.Once {
				return V{Ruling: interceptor.Allow}, nil
			}
			return V{}, nil
		}, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			c := gated(&n,
				fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`), fakellm.Says("I see.")))
			c.Interceptors = interceptor.Chain{
				interceptor.Approval(&interceptor.ApprovalOptions{Policy: test.policy}),
			}
			r := newRig(t, c, nil)
			run := r.say("Refund order 7.")
			got := ""
			for _, res := range of[event.Result](run) {
				got += string(res.Status)
			}
			for _, p := range of[event.Pause](run) {
				got += p.Pause.Await.Prompt
			}
			if got != test.want || (n.get("refund") > 0) != (test.want == "done") {
				t.Errorf("it came to %q, not %q; refund was entered %d times", got,
					test.want, n.get("refund"))
			}
		})
	}
}

// TestTwoGates: each asks once, in order. A decision counts for its own gate
// alone, however often it is delivered.
func TestTwoGates(t *testing.T) {
	var n counter
	model := fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`), fakellm.Says("Done."))
	r := newRig(t, gated(&n, model, "clerk", "boss"), nil)
	first := r.say("Refund order 7.").finished(event.FinishPaused).pause("refund")
	if first.Await.Gate != "clerk" || first.Await.Prompt != "clerk?" || first.Number != 1 {
		t.Fatalf("first asks %+v", first.Await)
	}
	second := r.answer(runner.Approve(first.ID,
		"carl", "fine")).finished(event.FinishPaused).pause("refund")
	if second.Await.Gate != "boss" || second.Number != 2 || second.ID == first.ID {
		t.Fatalf("then asks %+v", second.Await)
	}
	r.restart()
	res, err := r.Resume(t.Context(), chat, runner.Approve(first.ID, "carl", "fine"))
	must(t, err)
	if !res.Receipts[0].Duplicate {
		t.Error("the first gate's decision was taken twice")
	}
	if _, err := r.Resume(t.Context(), chat,
		runner.Deny(first.ID, "carl", "not fine")); !errors.Is(err, session.ErrResumeConflict) {
		t.Errorf("the first gate decides otherwise: %v", err)
	}
	var required *session.PauseRequiredError
	if _, err := r.Resume(t.Context(), chat, runner.Approve(first.Call,
		"carl", "both")); !errors.As(err, &required) || required.Open != second.ID {
		t.Errorf("a decision that names no pause: %v", err)
	}
	if again := r.carryOn().finished(event.FinishPaused).pause("refund"); again.ID != second.ID ||
		n.get("refund") != 0 {
		t.Fatalf("after all that, %s waits, and refund was entered %d times",
			again.ID, n.get("refund"))
	}
	r.answer(runner.Approve(second.ID, "bea", "")).finished(event.FinishStop)
	if n.get("refund") != 1 || len(model.Requests()) != 2 {
		t.Errorf("refund was entered %d times, the model called %d times",
			n.get("refund"), len(model.Requests()))
	}
}

// TestSecondGateDenies: the body is not entered, although the first gate let
// the call through.
func TestSecondGateDenies(t *testing.T) {
	var n counter
	r := newRig(t, gated(&n, fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`), fakellm.Says("I see.")), "clerk", "boss"), nil)
	p := r.say("Refund order 7.").pause("refund")
	p = r.answer(runner.Approve(p.ID, "carl", "")).pause("refund")
	r.answer(runner.Deny(p.ID, "bea", "too much")).finished(event.FinishStop)
	if n.get("refund") != 0 || !strings.Contains(string(r.result(p.Call).Output), "too much") {
		t.Errorf("refund was entered %d times; the result is %s",
			n.get("refund"), r.result(p.Call).Output)
	}
}

// TestDecisionsAreKept: actor, time, decision, reason and arguments, while the
// call is open and after it.
func TestDecisionsAreKept(t *testing.T) {
	var n counter
	now := newClock()
	r := newRig(t, gated(&n, fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`), fakellm.Says("I see.")), "clerk", "boss"), at(now))
	p := r.say("Refund order 7.").pause("refund")
	now.pass(time.Minute)
	p = r.answer(runner.ApproveEdited(p.ID, "carl", "half of it",
		textIn{"half of order 7"})).pause("refund")
	want := []tool.Decision{{
		Gate: "clerk", Approved: true, Reason: "half of it", Actor: "carl", At: now.now(),
		Shown:     tool.HashArguments(json.RawMessage(`{"text":"order 7"}`)),
		Arguments: json.RawMessage(`{"text":"half of order 7"}`),
	}}
	kept := func() []tool.Decision {
		t.Helper()
		c, err := r.Call(t.Context(), chat, p.Call, user)
		must(t, err)
		return c.Decisions
	}
	if diff := cmp.Diff(want, kept()); diff != "" {
		t.Errorf("while the call is open (-want +got):\n%s", diff)
	}
	now.pass(time.Minute)
	r.answer(runner.Deny(p.ID, "bea", "too much")).finished(event.FinishStop)
	r.restart()
	want = append(want, tool.Decision{
		Gate: "boss", Reason: "too much", Actor: "bea", At: now.now(),
		Shown: tool.HashArguments(json.RawMessage(`{"text":"half of order 7"}`)),
	})
	if diff := cmp.Diff(want, kept()); diff != "" {
		t.Errorf("once it has settled (-want +got):\n%s", diff)
	}
}

// TestRefusedAfterItHadBegun: a gate refuses the call once its outside job is
// done. The model isn't told that nothing was run; nor where the tool is gone
// by then.
func TestRefusedAfterItHadBegun(t *testing.T) {
	var n counter
	model := fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("I see."))
	review := interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
		if c.Answer == nil {
			return interceptor.Verdict{Ruling: interceptor.Allow}, nil
		}
		return interceptor.Verdict{Reason: "what came back: " + string(c.Answer.Payload)}, nil
	}})
	const begun = "Its work had begun before, and may have had effects."
	for name, deny := range map[string]func(r *rig, p tool.Pause){
		"by a person": func(r *rig, p tool.Pause) {
			p = r.answer(runner.Complete(p.ID,
				"ci", text("v2"))).finished(event.FinishPaused).pause("deploy")
			r.answer(runner.Deny(p.ID, "bob", "bad output"))
		},
		"by a cancellation": func(r *rig, p tool.Pause) {
			p = r.answer(runner.Complete(p.ID,
				"ci", text("v2"))).finished(event.FinishPaused).pause("deploy")
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "bob", "bad output")
			must(r.t, err)
			r.carryOn()
		},
		"by a deploy that takes the tool away": func(r *rig, p tool.Pause) {
			r.config.Tools, r.config.Interceptors = nil, nil
			r.restart()
			r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishPaused)
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "bob", "its tool is gone")
			must(r.t, err)
			r.carryOn()
		},
	} {
		r := newRig(t, agent.Config{
			Model: model, Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Interceptors: interceptor.Chain{review},
		}, nil)
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		deny(r, p)
		res := r.result(p.Call)
		if !res.Error || !strings.Contains(string(res.Output), begun) &&
			!strings.Contains(string(res.Output), "The work had begun") {
			t.Errorf("%s: the model reads %s", name, res.Output)
		}
		r.acceptable()
	}
}

// A policy that is cut off by the end of its process has asked no person.
func TestAPolicyThatIsCutOffAsksNoPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		hangs := true
		policy := func(ctx context.Context, _ tool.Call) (interceptor.Verdict, error) {
			if hangs {
				<-ctx.Done()
			}
			return interceptor.Verdict{Ruling: interceptor.Allow}, ctx.Err()
		}
		r := newRig(t, oneCall(instant("pay", tool.Once, &n),
			interceptor.Approval(&interceptor.ApprovalOptions{Policy: policy})), &rigOptions{memory: true})
		_, err := r.Send(t.Context(), user, chat, llm.UserText("Pay."), nil)
		must(t, err)
		r.closesAmidWork()
		hangs = false
		r.restart()
		if p := r.transcript().Pending; len(p) > 0 {
			t.Fatalf("it waits for %+v", p)
		}
		r.work(runner.WorkOptions{}, 1)
	})
}
