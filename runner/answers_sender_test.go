package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// signed is an answer that a sender has signed; none has, if it is empty.
func signed(r runner.Resumption, sender string) runner.Resumption {
	r.Sender = sender
	return r
}

// pausing is a deploy that waits for what acme signs.
func pausing(effect tool.Effect, n *counter, before func(tool.Call)) tool.Tool {
	return starting(effect, n,
		func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
			if before != nil {
				before(call)
			}
			return tool.Pending[textOut](tool.Await{Key: "job-1", Sender: "acme"}), nil
		})
}

func TestPauseForASenderTakesItsAnswersAlone(t *testing.T) {
	var n counter
	r := deploying(t, pausing(tool.Once, &n, nil))
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	if p.Await.Sender != "acme" {
		t.Errorf("the pause shows the sender %q", p.Await.Sender)
	}
	for _, sender := range []string{"", "bolts"} {
		for _, answer := range []runner.Resumption{
			runner.Complete(p.ID, "ci", text("forged")), runner.Fail(p.ID, "ci", "no", true),
			runner.Complete(p.Call, "ci", text("forged")),
		} {
			_, err := r.Resume(t.Context(), chat, signed(answer, sender))
			var other *session.SenderError
			if !errors.As(err, &other) || other.Pause != p.ID || other.Sender != "acme" {
				t.Errorf("an answer that %q has signed comes to %v", sender, err)
			}
		}
	}
	r.restart()
	answer := runner.Complete(p.ID, "ci", text("v2"))
	res, err := r.Resume(t.Context(), chat, signed(answer, "acme"))
	must(t, err)
	if rc := res.Receipts[0]; rc.Sender != "acme" || rc.Duplicate {
		t.Errorf("the receipt is %+v", rc)
	}
	// A pause that is over answers no other sender either.
	if _, err := r.Resume(t.Context(), chat, answer); !errors.Is(err, session.ErrOtherSender) {
		t.Errorf("the same without a signature comes to %v", err)
	}
	res, err = r.Resume(t.Context(), chat, signed(answer, "acme"))
	if err != nil || !res.Receipts[0].Duplicate {
		t.Errorf("the same again comes to %+v, %v", res, err)
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
	r.sound()
}

// An answer that is faster than its pause is judged when the pause is made.
func TestEarlyAnswerOfAnotherSender(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			r = deploying(t, pausing(effect, &n, func(call tool.Call) {
				_, err := r.Resume(t.Context(), chat, runner.Complete(call.ID, "ci", text("forged")))
				must(t, err)
			}))
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			if rc := r.receipt(p.Call, 1); rc.Fate != session.FateRefused {
				t.Errorf("the receipt of the forged answer is %+v", rc)
			}
			_, err := r.Resume(t.Context(), chat, signed(runner.Complete(p.ID, "ci", text("v2")), "acme"))
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			if got := string(r.result(p.Call).Output); got != string(text("v2")) {
				t.Errorf("the result is %s", got)
			}
			r.sound()
		})
		t.Run("its own "+string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			r = deploying(t, pausing(effect, &n, func(call tool.Call) {
				_, err := r.Resume(t.Context(), chat,
					signed(runner.Complete(call.ID, "ci", text("v2")), "acme"))
				must(t, err)
			}))
			r.say("Deploy.").finished(event.FinishStop)
			if got := string(r.result(r.onlyCall()).Output); got != string(text("v2")) {
				t.Errorf("the result is %s", got)
			}
			r.sound()
		})
	}
}

// What one sender has sent before the pause is no redelivery of another's, though
// it is the same: the other isn't told that its answer came, and is not lost.
func TestEarlyAnswerThatAnotherSenderRepeats(t *testing.T) {
	forged := func(pause string) runner.Resumption { return runner.Complete(pause, "ci", text("v2")) }
	ends := func(t *testing.T, r *rig, p tool.Pause) {
		t.Helper()
		if _, err := r.Resume(t.Context(), chat, forged(p.ID)); !errors.Is(err, session.ErrOtherSender) {
			t.Errorf("the forged answer again comes to %v", err)
		}
		res, err := r.Resume(t.Context(), chat, signed(forged(p.Call), "acme"))
		if err != nil || res.Receipts[0].Duplicate {
			t.Errorf("the answer that acme has signed comes to %+v, %v", res, err)
		}
		r.carryOn().finished(event.FinishStop)
		r.sound()
	}
	t.Run("while the body runs", func(t *testing.T) {
		var n counter
		var r *rig
		r = deploying(t, pausing(tool.Once, &n, func(call tool.Call) {
			_, err := r.Resume(t.Context(), chat, forged(call.ID))
			must(t, err)
			for _, answer := range []runner.Resumption{
				forged(call.ID), runner.Complete(call.ID, "ci", text("v3")),
			} {
				_, err := r.Resume(t.Context(), chat, signed(answer, "acme"))
				if !errors.Is(err, session.ErrNotYetKnown) {
					t.Errorf("what acme signs beside it comes to %v", err)
				}
			}
		}))
		ends(t, r, r.say("Deploy.").finished(event.FinishPaused).pause("deploy"))
	})
	t.Run("kept for its key", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{Sender: "acme"}), nil)
		r.kept(forged(""))
		ends(t, r, r.say("Deploy.").finished(event.FinishPaused).pause("deploy"))
	})
	t.Run("both kept for its key", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{Sender: "acme"}), nil)
		r.kept(forged(""))
		r.kept(signed(forged(""), "acme"))
		r.say("Deploy.").finished(event.FinishStop)
		r.sound()
	})
	t.Run("its own is a redelivery", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{Sender: "acme"}), nil)
		misfit := signed(runner.Complete("", "ci", []byte(`{"txt":1}`)), "acme")
		r.kept(misfit)
		r.say("Deploy.").finished(event.FinishPaused)
		res, err := r.ResumeByKey(t.Context(), job1, misfit, nil)
		if err != nil || !res.Receipts[0].Duplicate {
			t.Errorf("it comes to %+v, %v", res, err)
		}
	})
}

func TestEventOfAnotherSender(t *testing.T) {
	acme := offer.Spec()
	acme.Sender = "acme"
	spec := tool.Spec{Name: "buy", MayPause: true, Effect: tool.Idempotent,
		Mailbox: []tool.MailboxEvent{acme, note}}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{tool.Must(tool.Func(spec,
			func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
				if call := tool.CallFrom(ctx); len(call.Mail) > 0 {
					return tool.Done(textOut{call.Mail[0].Name + call.Mail[0].ID}), nil
				}
				return tool.Pending[textOut](tool.AnyOf("offer")), nil
			}))},
		Model: messages(calls("buy", `{"text":"a"}`), says("I see.")),
	}, nil)
	p := r.say("Buy.").finished(event.FinishPaused).pause("buy")
	mail := sends(p.Call, "offer", "1")
	for _, sender := range []string{"", "bolts"} {
		mail.Sender = sender
		_, err := r.Deliver(t.Context(), chat, mail)
		if !errors.Is(err, session.ErrOtherSender) || !strings.Contains(err.Error(), `"acme"`) {
			t.Errorf("an event that %q has signed comes to %v", sender, err)
		}
	}
	_, err := r.Deliver(t.Context(), chat, sends(p.Call, "note", "1")) // which anyone may send
	must(t, err)
	r.restart()
	mail.Sender = "acme"
	r.sent(mail).finished(event.FinishStop)
	mail.Sender = "" // the call is over, and still tells no other sender of it
	if _, err := r.Deliver(t.Context(), chat, mail); !errors.Is(err, session.ErrOtherSender) {
		t.Errorf("the same without a signature comes to %v", err)
	}
	mail.Sender = "acme"
	res, err := r.Deliver(t.Context(), chat, mail)
	if err != nil || !res.Receipts[0].Duplicate || res.Receipts[0].Sender != "acme" {
		t.Errorf("the same again comes to %+v, %v", res, err)
	}
	r.sound()
}

func TestPausesThatTakeNoSender(t *testing.T) {
	for name, a := range map[string]tool.Await{
		"message":         {Reason: tool.ReasonInput, Mode: tool.ModeMessage},
		"timer":           {Reason: tool.ReasonTimer, Timeout: 1},
		"events":          tool.AnyOf("offer"),
		"control":         {},
		"longer than key": {},
	} {
		a.Sender = "acme"
		switch name {
		case "control":
			a.Sender = "ac\nme"
		case "longer than key":
			a.Sender = strings.Repeat("a", tool.MaxKey+1)
		}
		if _, err := a.Normalize(); !errors.Is(err, tool.ErrInvalidAwait) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
