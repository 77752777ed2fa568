package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestPauseEndsWithItsEvents(t *testing.T) {
	for name, test := range map[string]struct {
		await tool.Await
		sends [][2]string
		shown string
	}{
		"any":         {tool.AnyOf("offer", "done"), [][2]string{{"note", "1"}, {"done", "1"}}, "(note 1*, done 1*)"},
		"any at all":  {tool.AnyOf(), [][2]string{{"note", "1"}}, "(note 1*)"},
		"all":         {tool.AllOf("offer", "done"), [][2]string{{"offer", "1"}, {"offer", "2"}, {"done", "1"}}, "(offer 1*, offer 2*, done 1*)"},
		"three":       {tool.CountOf(3, "offer", "done"), [][2]string{{"offer", "1"}, {"note", "9"}, {"offer", "2"}, {"done", "1"}}, "(offer 1*, note 9*, offer 2*, done 1*)"},
		"three equal": {tool.CountOf(3, "offer"), [][2]string{{"offer", "1"}, {"offer", "2"}, {"offer", "3"}}, "(offer 1*, offer 2*, offer 3*)"},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, p := bought(t, nil, &n, test.await)
			for i, m := range test.sends {
				want := event.FinishPaused
				if i == len(test.sends)-1 {
					want = event.FinishStop
				}
				r.sent(sends(p.Call, m[0], m[1])).finished(want)
			}
			if got := r.shown(p.Call); got != test.shown {
				t.Errorf("the entry was shown %s, not %s", got, test.shown)
			}
			if n.get("buy") != 2 {
				t.Errorf("the body was entered %d times", n.get("buy"))
			}
			r.acceptable()
			r.sound()
		})
	}
}

// Events come whenever they like: each counts once, for the pause that is open
// or for the next one.
func TestEventsBetweenPausesAreKept(t *testing.T) {
	var n counter
	r, p := bought(t, nil, &n, tool.AnyOf("offer"), tool.Await{Mode: tool.ModeReenter},
		tool.AllOf("offer", "done"))
	call := p.Call
	r.sent(sends(call, "offer", "1")).finished(event.FinishPaused) // the first pause ends
	for _, m := range [][2]string{{"offer", "2"}, {"done", "1"}} { // the second waits for no event
		r.sent(sends(call, m[0], m[1])).finished(event.FinishPaused)
	}
	r.restart()
	// Its answer shows both. They count for no later pause.
	r.answer(runner.Complete(call+".2", "ci", []byte(`1`))).finished(event.FinishPaused)
	r.sent(sends(call, "offer", "3")).finished(event.FinishPaused)
	r.restart()
	r.sent(sends(call, "done", "2")).finished(event.FinishStop)
	const want = "(offer 1*)(offer 1, offer 2*, done 1*)" +
		"(offer 1, offer 2, done 1, offer 3*, done 2*)"
	if got := r.shown(call); got != want {
		t.Errorf("the entries were shown\n%s, not\n%s", got, want)
	}
	r.sound()
}

// What came before a pause is written meets it at once.
func TestPauseThatIsMetWhenItIsWritten(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run("effect "+string(effect), func(t *testing.T) {
			var r *rig
			spec := tool.Spec{Name: "buy", Effect: effect, MayPause: true,
				Mailbox: []tool.MailboxEvent{offer.Spec()}}
			r = newRig(t, oneCall(does(spec,
				func(ctx context.Context, _ string) (tool.Result[textOut], error) {
					call := tool.CallFrom(ctx)
					if call.Answer != nil {
						return tool.Done(textOut{entryOf(call)}), nil
					}
					_, err := r.Deliver(ctx, chat, sends(call.ID, "offer", "early"))
					a := tool.AnyOf("offer")
					a.Data = text("")
					return tool.Pending[textOut](a), err
				})), nil)
			r.say("Go.").finished(event.FinishStop)
			if got := r.shown(r.onlyCall()); got != "(offer early*)" {
				t.Errorf("the entry was shown %s", got)
			}
			details, err := r.Call(t.Context(), chat, r.onlyCall(), user)
			must(t, err)
			if m := details.Mail; details.Pauses != 1 || m == nil || m.Count != 1 || m.Shown != 1 {
				t.Errorf("it paused %d times, and has %+v", details.Pauses, details.Mail)
			}
			r.sound()
		})
	}
}

// An answer to a pause that waits for events is refused; a failure and a
// cancellation are not.
func TestPauseForEventsTakesNoAnswer(t *testing.T) {
	for name, end := range map[string]func(r *rig, p tool.Pause) event.Status{
		"fail": func(r *rig, p tool.Pause) event.Status {
			r.answer(runner.Fail(p.ID, "ci", "no", false))
			return event.Failed
		},
		"cancel": func(r *rig, p tool.Pause) event.Status {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, user, "no")
			must(r.t, err)
			return event.Cancelled
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, p := bought(t, nil, &n, tool.AllOf("offer", "done"))
			if p.Await.Mail == nil || len(p.Await.Mail.Names) != 2 || p.Await.Mode != tool.ModeReenter {
				t.Errorf("the pause is shown as %+v", p.Await)
			}
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
			if !errors.Is(err, session.ErrInvalidResumePayload) {
				t.Errorf("an answer is told %v", err)
			}
			r.sent(sends(p.Call, "offer", "1")).finished(event.FinishPaused)
			want := end(r, p)
			r.carryOn().finished(event.FinishStop)
			details, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if details.Settled != want || n.get("buy") != 1 {
				t.Errorf("the call ended as %s, and its body was entered %d times",
					details.Settled, n.get("buy"))
			}
			// The event was accepted, and the tool never saw it.
			if rc := r.redelivered(sends(p.Call, "offer", "1"), 1); rc.Fate != session.Superseded {
				t.Errorf("it was told %+v", rc)
			}
			var settled *session.SettledError
			_, err = r.Deliver(t.Context(), chat, sends(p.Call, "done", "late"))
			if !errors.As(err, &settled) || settled.Status != want {
				t.Errorf("a late event is told %v", err)
			}
		})
	}
}

func TestAwaitsOfEventsThatMakeNoSense(t *testing.T) {
	for name, await := range map[string]tool.Await{
		"a name that isn't declared": tool.AnyOf("offer", "ofer"),
		"a name twice":               tool.AllOf("offer", "offer"),
		"fewer than one":             tool.CountOf(0, "offer"),
		"more than come":             tool.CountOf(1001, "offer"),
		"a schema":                   {Mail: &tool.MailWait{}, Schema: []byte(`{}`)},
		"a question":                 {Mail: &tool.MailWait{}, Prompt: "Which?"},
		"an output":                  {Mail: &tool.MailWait{}, Mode: tool.ModeOutput},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, oneCall(buying(tool.Idempotent, &n, await)), nil)
			r.say("Go.").finished(event.FinishStop)
			if res := r.result(r.onlyCall()); !res.Error {
				t.Errorf("the call ended with %s", res.Output)
			}
		})
	}
	_, err := agent.New(oneCall(rawTool{spec: tool.Spec{Name: "a",
		Mailbox: []tool.MailboxEvent{note}}}))
	if err == nil {
		t.Error("a tool that can't pause takes events")
	}
}
