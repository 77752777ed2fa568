package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// stepping is a tool that waits for one outside job after another; job is given the token of each.
func stepping(steps int, job func(step int, token string)) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "pipeline", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			if call.Pauses == steps {
				return tool.Done(textOut{string(call.Answer.Payload)}), nil
			}
			job(call.Pauses+1, call.Token())
			return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
		}))
}

func TestAnswerNamesAPause(t *testing.T) {
	tokens := map[int]string{}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{stepping(3, func(step int, token string) { tokens[step] = token })},
		Model: fakellm.New(fakellm.Calls("pipeline", `{"text":"a"}`), fakellm.Says("Done.")),
	}, nil)
	resume := func(pause, payload string) (session.Receipt, error) {
		res, err := r.Resume(t.Context(), chat, runner.Complete(pause, "ci", []byte(payload)))
		if err != nil {
			return session.Receipt{}, err
		}
		return res.Receipts[0], nil
	}
	p := r.say("Go.").finished(event.FinishPaused).pause("pipeline")
	one, two, three := tool.PauseID(p.Call, 1), tool.PauseID(p.Call, 2), tool.PauseID(p.Call, 3)

	// While there was one pause, the call's id means it.
	rc, err := resume(p.Call, `1`)
	if err != nil || rc.Pause != 1 || rc.Duplicate {
		t.Fatalf("by the call's id: %+v, %v", rc, err)
	}
	if rc, err = resume(one, `1`); err != nil || !rc.Duplicate {
		t.Errorf("the same by the pause's id: %+v, %v", rc, err)
	}
	if p = r.carryOn().finished(event.FinishPaused).pause("pipeline"); p.ID != two {
		t.Fatalf("%s waits", p.ID)
	}

	// From the second on it is ambiguous, but for what came already.
	var required *session.PauseRequiredError
	if _, err = resume(p.Call, `2`); !errors.As(err, &required) || !errors.Is(err, session.ErrPauseRequired) || required.Open != two {
		t.Errorf("by the call's id, at pause 2: %v", err)
	}
	if rc, err = resume(p.Call, `1`); err != nil || !rc.Duplicate || rc.Pause != 1 {
		t.Errorf("the first answer by the call's id, at pause 2: %+v, %v", rc, err)
	}
	// An answer to pause 1 doesn't answer pause 2, whatever it says, and however pause 1 is named.
	if _, err = resume(one, `2`); !errors.Is(err, session.ErrResumeConflict) {
		t.Errorf("another answer to pause 1: %v", err)
	}
	found, err := r.Find(t.Context(), runner.Ref{Token: tokens[1]}, user)
	if err != nil || found.ID != one || found.Await.Reason != "" {
		t.Errorf("the token of pause 1 finds %+v, %v", found, err)
	}
	if found, err = r.Find(t.Context(), runner.Ref{Token: tokens[2]}, user); err != nil || found.ID != two || found.Await.Reason == "" {
		t.Errorf("the token of pause 2 finds %+v, %v", found, err)
	}
	if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil || st.Status != session.Pending {
		t.Fatalf("the call is %s, %v", st.Status, err)
	}
	for _, id := range []string{three, tool.PauseID(p.Call, 4), p.Call + ".0", p.Call + ".x", p.Call + ".99999999999999999999"} {
		if _, err := resume(id, `2`); !errors.Is(err, session.ErrUnknownPause) && !errors.Is(err, session.ErrUnknownCall) && !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s: %v", id, err)
		}
	}

	// Equal content is no duplicate where it answers another pause.
	if rc, err = resume(two, `1`); err != nil || rc.Duplicate || rc.Pause != 2 {
		t.Errorf("the same content for pause 2: %+v, %v", rc, err)
	}
	r.carryOn().finished(event.FinishPaused)
	if rc, err = resume(three, `3`); err != nil || rc.Duplicate {
		t.Errorf("pause 3: %+v, %v", rc, err)
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("3")) {
		t.Errorf("the result is %s", got)
	}
	// Once the call has settled, each pause still has its own answer.
	for n, id := range map[string]string{`1`: one, `3`: three} {
		if rc, err := resume(id, n); err != nil || !rc.Duplicate {
			t.Errorf("%s again: %+v, %v", id, rc, err)
		}
	}
	if rc, err := resume(p.Call, `3`); err != nil || !rc.Duplicate || rc.Pause != 3 {
		t.Errorf("the last answer by the call's id: %+v, %v", rc, err)
	}
	if _, err := resume(p.Call, `4`); !errors.Is(err, session.ErrSettled) {
		t.Errorf("a new answer by the call's id: %v", err)
	}
	r.acceptable()
}

// A token that a body hands out is for the pause that it is about to ask for, in each entry and each attempt.
func TestTokenIsForTheNextPause(t *testing.T) {
	var r *rig
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{stepping(2, func(step int, token string) {
			p, err := r.Find(t.Context(), runner.Ref{Token: token}, user)
			if err != nil || p.Number != step || p.Await.Reason != "" {
				t.Errorf("in the body, the token of step %d finds %+v, %v", step, p, err)
			}
			if step == 2 { // the outside system is faster
				if _, err := r.deliver(token, "fast"); err != nil {
					t.Error(err)
				}
			}
		})},
		Model: fakellm.New(fakellm.Calls("pipeline", `{"text":"a"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("pipeline")
	// The early answer is an output, and the pause takes one for the tool: it is refused, and pause 2 is open.
	p = r.answer(runner.Complete(p.ID, "ci", []byte(`1`))).finished(event.FinishPaused).pause("pipeline")
	if rc := r.receipt(p.Call, 2); p.Number != 2 || rc.Fate != session.Refused {
		t.Errorf("pause %d is open; the receipt says %q", p.Number, rc.Fate)
	}
	// By the call's id the redelivery is known, too.
	if res, err := r.Resume(t.Context(), chat, runner.Complete(p.Call, "ci", text("fast"))); err != nil || !res.Receipts[0].Duplicate {
		t.Errorf("redelivered: %+v, %v", res, err)
	}
}

// From the second pause on, an early answer by the call's id is ambiguous, but for the one that is kept.
func TestEarlyAnswerByCallOfALaterPause(t *testing.T) {
	var n counter
	var r *rig
	r = deploying(t, starting(tool.Once, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
		if call.Pauses < 2 {
			return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
		}
		if _, err := r.Resume(ctx, chat, runner.Complete(call.ID, "ci", text("v3"))); !errors.Is(err, session.ErrPauseRequired) {
			t.Errorf("by the call's id: %v", err)
		}
		if _, err := r.deliver(call.Token(), "v3"); err != nil {
			t.Error(err)
		}
		res, err := r.Resume(ctx, chat, runner.Complete(call.ID, "ci", text("v3")))
		if err != nil || !res.Receipts[0].Duplicate || res.Receipts[0].Pause != 3 {
			t.Errorf("again, by the call's id: %+v, %v", res, err)
		}
		return tool.Pending[textOut](tool.Await{}), nil
	}))
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	p = r.answer(runner.Complete(p.ID, "ci", []byte(`1`))).finished(event.FinishPaused).pause("deploy")
	r.answer(runner.Complete(p.ID, "ci", []byte(`2`))).finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v3")) {
		t.Errorf("the result is %s", got)
	}
}

// Some gateways number calls from 0 in each request: an old answer must not meet a new call.
func TestProviderReusesIDsInLaterTurns(t *testing.T) {
	var n counter
	turn := fakellm.Calls("deploy", `{"text":"job"}`).IDs("call_0")
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("touch", tool.Once, &n), waiting("deploy", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("touch", `{"text":"a"}`).IDs("call_0"), turn, turn, fakellm.Says("Done.")),
	}, nil)
	old := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	next := r.answer(runner.Complete(old.ID, "ci", text("v1"))).finished(event.FinishPaused).pause("deploy")
	if next.Call == old.Call {
		t.Fatal("two calls have one id")
	}
	for _, late := range []string{"v1", "v2"} { // redelivered, and changed
		res, err := r.Resume(t.Context(), chat, runner.Complete(old.ID, "ci", text(late)))
		if late == "v1" && (err != nil || !res.Receipts[0].Duplicate) || late == "v2" && !errors.Is(err, session.ErrResumeConflict) {
			t.Errorf("%s: %+v, %v", late, res, err)
		}
	}
	if st, err := r.Call(t.Context(), chat, next.Call, user); err != nil || st.Status != session.Pending {
		t.Fatalf("the new call is %s, %v", st.Status, err)
	}
	r.answer(runner.Complete(next.ID, "ci", text("v3"))).finished(event.FinishStop)
	if a, b := r.result(old.Call), r.result(next.Call); string(a.Output) != string(text("v1")) || string(b.Output) != string(text("v3")) {
		t.Errorf("the results are %s and %s", a.Output, b.Output)
	}
	if n.get("deploy") != 2 || n.get("touch") != 1 {
		t.Errorf("the bodies were entered %v", n.n)
	}
	r.acceptable()
}
