package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// An answer was accepted as a call's output, and a layer then asks about it.
// The answer is superseded if the call ends otherwise.
func TestAnswerThatALayerHoldsBack(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(r *rig, at *clock, gate tool.Pause)
		status event.Status
		fate   session.Fate
	}{
		"approved": {func(r *rig, _ *clock, gate tool.Pause) {
			r.answer(runner.Approve(gate.ID, "ada", ""))
		}, event.Done, ""},
		"denied": {func(r *rig, _ *clock, gate tool.Pause) {
			r.answer(runner.Deny(gate.ID, "ada", ""))
		}, event.Denied,
			session.Superseded},
		"expired": {func(r *rig, at *clock, _ tool.Pause) {
			at.pass(8 * 24 * time.Hour)
		}, event.Expired, session.Superseded},
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
				Tools:        []tool.Tool{waiting("deploy", tool.Once, &n)},
				Interceptors: interceptor.Chain{release},
				Model:        messages(calls("deploy", `{"text":"job-1"}`), says("I see.")),
			}, &rigOptions{memory: true, session: &session.Options{Now: at.now}})
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			gate := r.answer(runner.Complete(p.ID,
				"ci", text("v2"))).finished(event.FinishPaused).pause("deploy")
			c.end(r, at, gate)
			r.carryOn().finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if st.Settled != c.status || st.Receipts[0].Kind != session.KindComplete ||
				st.Receipts[0].Fate != c.fate {
				t.Errorf("it settled as %s, and the answer's receipt is %+v",
					st.Settled, st.Receipts[0])
			}
		})
	}
}

func TestFatesOfEarlyAnswers(t *testing.T) {
	type body = func(context.Context, tool.Call) (tool.Result[textOut], error)
	// early runs the body after an answer came for its pause, and says what
	// became of the answer.
	early := func(t *testing.T, effect tool.Effect, then body) (*rig, *seen, session.Receipt) {
		var n counter
		var r *rig
		r = deploying(t,
			starting(effect, &n,
				func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
					if call.Answer == nil {
						if _, err := r.deliver(call.Token(), "v2"); err != nil {
							t.Error(err)
						}
					}
					return then(ctx, call)
				}))
		s := r.say("Deploy.")
		return r, s, r.receipt(r.onlyCall(), 1)
	}
	asks := func(a tool.Await) body {
		return func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
			if call.Answer != nil {
				return tool.Done(textOut{"answered " + string(call.Answer.Payload)}), nil
			}
			return tool.Pending[textOut](a), nil
		}
	}
	t.Run("consumed", func(t *testing.T) {
		_, s, rc := early(t, tool.Once, asks(tool.Await{}))
		s.finished(event.FinishStop)
		if rc.Fate != "" {
			t.Errorf("the receipt says %q", rc.Fate)
		}
	})
	t.Run("superseded by a result", func(t *testing.T) {
		r, s, rc := early(t, tool.Idempotent,
			func(context.Context, tool.Call) (tool.Result[textOut], error) {
				return tool.Done(textOut{"my own"}), nil
			})
		s.finished(event.FinishStop)
		if rc.Fate != session.Superseded {
			t.Errorf("the receipt says %q", rc.Fate)
		}
		if got := string(r.result(r.onlyCall()).Output); got != string(text("my own")) {
			t.Errorf("the result is %s", got)
		}
	})
	t.Run("superseded by an error", func(t *testing.T) {
		_, s, rc := early(t, tool.Once,
			func(context.Context, tool.Call) (tool.Result[textOut], error) {
				return nil, errors.New("refused by the CI")
			})
		s.finished(event.FinishStop)
		if rc.Fate != session.Superseded {
			t.Errorf("the receipt says %q", rc.Fate)
		}
	})
	for name, await := range map[string]tool.Await{
		"refused by a pause of another mode":   {Mode: tool.ModeReenter},
		"refused by a pause of another schema": {Schema: []byte(`{"type":"integer"}`)},
		"refused by a question to the user": {Reason: tool.ReasonInput, Mode: tool.ModeMessage,
			Schema: []byte(`{"type":["integer","string"]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			r, s, rc := early(t, tool.Once, asks(await))
			p := s.finished(event.FinishPaused).pause("deploy")
			if rc.Fate != session.Refused || p.Number != 1 {
				t.Fatalf("the receipt says %q; pause %d is open", rc.Fate, p.Number)
			}
			// The sender tries again: it hears the same, and the pause is not
			// answered by it.
			res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
			must(t, err)
			if got := res.Receipts[0]; !got.Duplicate || got.Fate != session.Refused ||
				!got.At.Equal(rc.At) {
				t.Errorf("redelivered: %+v", got)
			}
			if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
				st.Status != session.Pending {
				t.Errorf("after the redelivery the call is %s, %v", st.Status, err)
			}
			// An answer of the right kind is taken, and both receipts stay.
			answer := `7`
			if await.Schema == nil {
				answer = `{"text":"7"}`
			}
			r.answer(runner.Complete(p.ID, "ada", []byte(answer))).finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			fates := map[session.Fate]string{}
			for _, rc := range st.Receipts {
				fates[rc.Fate] = rc.Actor
			}
			if len(st.Receipts) != 2 || fates[session.Refused] != "ci" || fates[""] != "ada" {
				t.Errorf("the receipts are %+v", st.Receipts)
			}
			if res, err = r.Resume(t.Context(), chat,
				runner.Complete(p.ID, "ci", text("v2"))); err != nil || !res.Receipts[0].Duplicate {
				t.Errorf("redelivered after the end: %+v, %v", res, err)
			}
			r.acceptable()
		})
	}
	t.Run("checked", func(t *testing.T) {
		var n counter
		var r *rig
		r = deploying(t,
			starting(tool.Once, &n,
				func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
					_, err := r.Resume(ctx, chat,
						runner.Complete(call.ID, "ci", []byte(`{"txt":"v2"}`)))
					if !errors.Is(err, session.ErrInvalidResumePayload) {
						t.Errorf("an early answer that does not fit: %v", err)
					}
					return tool.Pending[textOut](tool.Await{}), nil
				}))
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil || len(st.Receipts) != 0 {
			t.Errorf("its receipts are %v, %v", st.Receipts, err)
		}
	})
}

func TestSecondEarlyAnswer(t *testing.T) {
	var n counter
	var r *rig
	r = deploying(t,
		starting(tool.Once, &n,
			func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
				first, err := r.deliver(call.Token(), "v2")
				must(t, err)
				again, err := r.deliver(call.Token(), "v2")
				if err != nil || !again.Duplicate || !again.At.Equal(first.At) {
					t.Errorf("again: %+v, %v", again, err)
				}
				var conflict *session.ConflictError
				if _, err := r.deliver(call.Token(), "v3"); !errors.As(err, &conflict) ||
					conflict.Receipt.Actor != "ci" {
					t.Errorf("another: %v", err)
				}
				return tool.Pending[textOut](tool.Await{}), nil
			}))
	r.say("Deploy.").finished(event.FinishStop)
}

// A layer may ask again while an answer for the tool's own pause is kept: it
// gets a pause of its own.
func TestEarlyAnswerAndAGate(t *testing.T) {
	var n counter
	var r *rig
	gate := interceptor.Layer{Name: "gate",
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
				if _, decided := call.Decided("gate"); decided {
					return next(ctx, call)
				}
				if _, err := r.Resume(ctx, chat,
					runner.Complete(call.ID, "ci", text("v2"))); err != nil {
					t.Error(err)
				}
				return tool.Execution{Await: &tool.Await{}}, nil
			}
		}}
	r = newRig(t, agent.Config{
		Tools:        []tool.Tool{waiting("deploy", tool.Idempotent, &n)},
		Interceptors: interceptor.Chain{gate},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
			fakellm.Says("Deployed.")),
	}, nil)
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	if rc := r.receipt(p.Call, 1); p.Number != 2 || rc.Fate != session.Refused {
		t.Errorf("pause %d is open, and the receipt of the answer to pause 1 says %q",
			p.Number, rc.Fate)
	}
	p = r.answer(runner.Approve(p.ID, "ada", "")).finished(event.FinishPaused).pause("deploy")
	if p.Number != 3 || n.get("deploy") != 1 {
		t.Errorf("pause %d is open; the body was entered %d times", p.Number, n.get("deploy"))
	}
	r.answer(runner.Complete(p.ID, "ci", text("v3"))).finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v3")) {
		t.Errorf("the result is %s", got)
	}
	r.acceptable()
}

// An early answer outlived its body, and is to be the output; a layer that asks
// first denies it. Its receipt says so.
func TestEarlyAnswerThatAGateDenies(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n)},
		// The gate is asked once the call's turn has come.
		Interceptors: append(interceptor.Chain{passes}, approval()...),
		Model:        fakellm.New(fakellm.Calls("job", `{"text":"10"}`), fakellm.Says("I see.")),
	}, nil)
	for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		if _, ok := ev.(event.Call); ok {
			break
		}
	}
	call := r.onlyCall()
	_, err := r.Resume(t.Context(), chat, runner.Complete(call, "ci", text("v")))
	must(t, err)
	p := r.carryOn().finished(event.FinishPaused).pause("job")
	r.answer(runner.Deny(p.ID, "eve", "no")).finished(event.FinishStop)
	if rc := r.receipt(call, 1); rc.Fate != session.Superseded {
		t.Errorf("the answer's receipt says %q", rc.Fate)
	}
}

// From the second pause on, an early answer by the call's id is ambiguous, but
// for the one that is kept.
func TestEarlyAnswerByCallOfALaterPause(t *testing.T) {
	var n counter
	var r *rig
	r = deploying(t,
		starting(tool.Once, &n,
			func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
				if call.Pauses < 2 {
					return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
				}
				if _, err := r.Resume(ctx, chat,
					runner.Complete(call.ID, "ci", text("v3"))); !errors.Is(err,
					session.ErrPauseRequired) {
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
	p = r.answer(runner.Complete(p.ID,
		"ci", []byte(`1`))).finished(event.FinishPaused).pause("deploy")
	r.answer(runner.Complete(p.ID, "ci", []byte(`2`))).finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v3")) {
		t.Errorf("the result is %s", got)
	}
}
