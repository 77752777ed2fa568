package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestRunWithCallsPending(t *testing.T) {
	var n counter
	config := agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n), asking("ask", &n)},
		Model: messages(calls("job", `{"text":"j"}`, "ask", `{"text":"q"}`),
			says("Noted."), says("Again.")),
	}
	t.Run("it is refused, with a list", func(t *testing.T) {
		r := newRig(t, config, nil)
		p := r.say("Go.").finished(event.FinishPaused)
		before := r.transcript()
		// a machine's call is not denied for a message
		for _, o := range []*runner.RunOptions{nil, {Supersede: true}} {
			run := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Well?"), o))
			var pending *session.PendingError
			if !errors.As(run.err, &pending) || len(pending.Pending) != 2 ||
				pending.Pending[0].ID != p.pause("job").ID {
				t.Errorf("%+v: %v", o, run.err)
			}
		}
		if after := r.transcript(); printed(after) != printed(before) {
			t.Errorf("a refused message left a trace: %v", after)
		}
		// What was accepted is settled first; then the message is appended, and
		// the model called once.
		for _, tool := range []string{"job", "ask"} {
			_, err := r.Resume(t.Context(), chat,
				runner.Complete(p.pause(tool).ID, "ci", text("v")))
			must(t, err)
		}
		r.restart()
		r.say("Well?").finished(event.FinishStop)
		history := r.transcript().History
		if len(history) != 5 || history[3].Text() != "Well?" || history[4].Text() != "Noted." {
			t.Errorf("the history is %v", history)
		}
		r.acceptable()
	})
	t.Run("it supersedes what waits for a person", func(t *testing.T) {
		r := newRig(t, config, nil)
		p := r.say("Go.").finished(event.FinishPaused)
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.pause("job").ID, "ci", text("v")))
		must(t, err)
		watch(t, r.Run(t.Context(), user, chat, llm.UserText("Never mind."),
			&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
		denied := r.result(p.pause("ask").Call)
		if !denied.Error || !strings.Contains(string(denied.Output), "Denied") {
			t.Errorf("the question settled with %s", denied.Output)
		}
		if _, err := r.Resume(t.Context(), chat, runner.Complete(p.pause("ask").ID,
			user, text("late"))); !errors.Is(err, session.ErrSettled) {
			t.Errorf("a late answer gets %v", err)
		}
		r.acceptable()
	})
}

// A call that a message supersedes is shown as denied once that can't be
// otherwise any more.
func TestSupersededIsShownOnceStored(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)}, Interceptors: approval(),
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"10"}`), fakellm.Says("I see.")),
	}, nil)
	p := r.say("Refund it.").finished(event.FinishPaused).pause("refund")
	denied := false
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("No, wait."),
		&runner.RunOptions{Supersede: true}) {
		must(t, err)
		if res, ok := ev.(event.Result); ok && res.Status == event.Denied {
			denied = true
			if _, err := r.Resume(t.Context(), chat,
				runner.Approve(p.ID, "eve", "")); !errors.Is(err, session.ErrSettled) {
				t.Errorf("an approval after that is told %v", err)
			}
		}
	}
	if n.get("refund") != 0 || !denied {
		t.Errorf("it was shown as denied: %v; it ran %d times", denied, n.get("refund"))
	}
	r.acceptable()
}

// A message that supersedes more than one commit denies keeps its lease in
// between. Meanwhile one actor approves one of the rest, and another process
// would carry that on: the message isn't refused half done.
func TestSupersededInSeveralCommits(t *testing.T) {
	var n counter
	turn := fakellm.Turn{}
	for range session.SupersedeAtOnce + 2 {
		turn = turn.And("refund", `{"text":"a"}`)
	}
	h := new(hooked)
	r := newRig(t, gated(&n, fakellm.New(turn, fakellm.Says("As you like.")), "clerk"),
		&rigOptions{wrap: h.shared})
	other := r.another()
	r.say("Go.").finished(event.FinishPaused)
	h.apply = func(kvstore.Batch) {
		p := must2(r.Show(t.Context(), chat, user)).Pending
		if len(p) > 2 {
			return // the first are not denied yet
		}
		h.apply = nil
		_, err := other.Resume(t.Context(), chat, runner.Approve(p[0].ID, "bob", ""))
		must(t, err)
		if err := watch(t,
			other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
			t.Errorf("another process carries it on: %v", err)
		}
	}
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."),
		&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
	if n.get("refund") != 1 || !slices.Contains(r.texts(), "Stop.") || h.apply != nil {
		t.Errorf("refund was entered %d times; it ended as %s, and the session has %q",
			n.get("refund"), s.end.Finish, r.texts())
	}
	r.acceptable()
}

// manyGated is a rig where more refunds wait than one commit denies, and so two
// do.
func manyGated(t *testing.T, wrap func(kvstore.Store) kvstore.Store) *rig {
	var n counter
	turn := fakellm.Turn{}
	for range session.SupersedeAtOnce + 2 {
		turn = turn.And("refund", `{"text":"a"}`)
	}
	r := newRig(t, gated(&n, fakellm.New(turn, fakellm.Says("As you like.")), "clerk"),
		&rigOptions{wrap: wrap})
	r.say("Go.").finished(event.FinishPaused)
	return r
}

// A message that supersedes can't be stored. What was to be denied with it
// waits on, the model is not asked, and what was denied before it is shown by
// the next drive.
func TestSupersedingMessageThatIsNotStored(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			r := manyGated(t, wrap)
			r.faults.Before(func(c faultkv.Call) {
				// the others are denied
				if len(must2(r.Show(t.Context(), chat, user)).Pending) == 2 {
					r.faults.Before(nil)
					r.faults.Add(faultkv.FailAt(c.Number))
				}
			})
			s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."),
				&runner.RunOptions{Supersede: true}))
			if !errors.Is(s.err, faultkv.ErrFault) || len(s.end.Pending) != 2 ||
				len(r.transcript().Pending) != 2 {
				t.Errorf("it ended with %v; %d calls wait, and %d as it said", s.err,
					len(r.transcript().Pending), len(s.end.Pending))
			}
			shows(t, s)
			shows(t, r.carryOn().finished(event.FinishPaused),
				slices.Repeat([]string{"refund denied"}, session.SupersedeAtOnce)...)
		})
	}
}

// A superseding message closes a turn that hands the session over. Whichever
// write fails: what is shown as denied is stored, and if the message isn't, the
// question waits on, and the session is its agent's.
func TestSupersedingMessageInATurnThatHandsOver(t *testing.T) {
	var n counter
	for at, struck := 1, true; struck; at++ {
		t.Run(fmt.Sprint("write ", at), func(t *testing.T) {
			over, o := handing(t, fakellm.New(fakellm.Says("-"), fakellm.Says("Refunded."),
				fakellm.Says("Gladly.")))
			o.memory = true
			r := newRig(t, agent.Config{Tools: []tool.Tool{over, asking("ask", &n)},
				Model: fakellm.New(fakellm.Calls("ask", `{"text":"q"}`).
					And("transfer_to_billing", `{"reason":"money"}`))}, o)
			r.say("Go.").finished(event.FinishPaused).pause("ask")
			r.faults.Add(faultkv.FailAt(r.faults.Applies() + at))
			s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."),
				&runner.RunOptions{Supersede: true}))
			struck = r.faults.Struck() > 0
			stored := slices.Contains(r.texts(), "Stop.")
			tr := r.transcript()
			if !stored && (len(tr.Pending) != 1 || tr.Agent != "ops" || s.err == nil ||
				len(of[event.Result](s))+len(of[event.Handoff](s)) > 0) {
				t.Errorf("the message is not stored; %d calls wait, the session is %s's, and "+
					"the run showed %v, and ended with %v", len(tr.Pending), tr.Agent, s.events, s.err)
			}
			if stored && tr.Agent != "billing" {
				t.Errorf("the message is stored, and the session is %s's", tr.Agent)
			}
			if !struck {
				s.finished(event.FinishStop)
				if len(of[event.Handoff](s)) != 1 {
					t.Errorf("the events are %v", s.events)
				}
			}
		})
	}
}

// The run is ended while a message supersedes its calls. What was denied is
// shown all the same, and the message with the results.
func TestRunThatIsEndedWhileItIsSuperseded(t *testing.T) {
	r := manyGated(t, nil)
	r.faults.Before(func(faultkv.Call) {
		r.faults.Before(nil)
		must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
	})
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."),
		&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
	shows(t, s, slices.Repeat([]string{"refund denied"}, session.SupersedeAtOnce+2)...)
	if m := of[event.Message](s); len(m) != 2 || m[0].Message.Role != llm.RoleTool {
		t.Errorf("the messages shown are %v", m)
	}
	r.acceptable()
}

// A superseding message may be overtaken at any of its writes by an actor who
// approves. What is shown as denied then is stored as that.
func TestDenialIsShownWhenItIsStored(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		t.Run(fmt.Sprint("before write ", n), func(t *testing.T) {
			struck = false
			var entered counter
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{instant("refund", tool.Once, &entered),
					instant("pay", tool.Once, &entered)},
				Interceptors: interceptor.Chain{
					interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund",
						"pay"}}),
				},
				Model: fakellm.New(fakellm.Calls("refund", `{"text":"a"}`).And("pay",
					`{"text":"b"}`), fakellm.Says("I see."),
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
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("No, wait."),
				&runner.RunOptions{Supersede: true}) {
				must(t, err)
				if ev, ok := ev.(event.Result); ok {
					st, err := other.Call(t.Context(), chat, ev.Result.Call, user)
					if err != nil || ev.Status == event.Denied && st.Settled != event.Denied {
						t.Errorf("%s is shown as %s, and is %s %s, %v", st.Tool, ev.Status,
							st.Status, st.Settled, err)
					}
				}
			}
			r.acceptable()
		})
	}
}

// A caller that is refused because calls wait is told what helps: an outside
// job can't be superseded.
func TestWaitingCallsSayWhatHelps(t *testing.T) {
	for want, reason := range map[string]tool.Reason{
		"send the message so that it supersedes": tool.ReasonInput,
		"can't be superseded":                    tool.ReasonExternal,
	} {
		ask := does(tool.Spec{Name: "ask", MayPause: true},
			func(context.Context, string) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{Reason: reason}), nil
			})
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{ask}, Model: messages(calls("ask", `{"text":"x"}`), says("Well.")),
		}, nil)
		r.say("Go.").finished(event.FinishPaused)
		s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("And?"), nil))
		if s.err == nil || !strings.Contains(s.err.Error(), want) ||
			!errors.Is(s.err, session.ErrPending) {
			t.Errorf("with reason %q: %v", reason, s.err)
		}
	}
}
