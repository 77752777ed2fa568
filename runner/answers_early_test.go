package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// starting is a tool that starts an outside job, and then does what its test wants.
func starting(effect tool.Effect, n *counter, then func(context.Context, tool.Call) (tool.Result[textOut], error)) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "deploy", Effect: effect, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			n.add("deploy")
			return then(ctx, tool.CallFrom(ctx))
		}))
}

// deploying is a rig for one such call.
func deploying(t *testing.T, deploy tool.Tool) *rig {
	return newRig(t, agent.Config{
		Tools: []tool.Tool{deploy},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, nil)
}

// deliver answers as a webhook does: it finds the pause by a token, and resumes.
func (r *rig) deliver(token, output string) (session.Receipt, error) {
	p, err := r.Find(r.t.Context(), runner.Ref{Token: token}, user)
	if err != nil {
		return session.Receipt{}, err
	}
	res, err := r.Resume(r.t.Context(), p.Session, runner.Complete(p.ID, "ci", text(output)))
	if err != nil {
		return session.Receipt{}, err
	}
	return res.Receipts[0], nil
}

// receipt is the one of a call's pause, as it is stored.
func (r *rig) receipt(call string, pause int) session.Receipt {
	r.t.Helper()
	st, err := r.Call(r.t.Context(), chat, call, user)
	must(r.t, err)
	for _, rc := range st.Receipts {
		if rc.Pause == pause && rc.Kind != session.KindCancel {
			return rc
		}
	}
	r.t.Fatalf("call %s has no receipt for pause %d: %+v", call, pause, st.Receipts)
	return session.Receipt{}
}

// onlyCall is the id of the session's one call.
func (r *rig) onlyCall() string {
	r.t.Helper()
	for _, m := range r.transcript().History {
		if calls := m.ToolCalls(); len(calls) == 1 {
			return calls[0].ID
		}
	}
	r.t.Fatal("the model has not called a tool")
	return ""
}

func TestAnswerFasterThanThePause(t *testing.T) {
	pending := func() (tool.Result[textOut], error) { return tool.Pending[textOut](tool.Await{Key: "job-1"}), nil }
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		check := func(t *testing.T, r *rig, n *counter, s *seen) {
			t.Helper()
			s.finished(event.FinishStop)
			if got := string(r.result(r.onlyCall()).Output); got != string(text("v2")) {
				t.Errorf("the result is %s", got)
			}
			if len(of[event.Pause](s)) != 0 || n.get("deploy") != 1 {
				t.Errorf("it showed %d pauses, and entered the body %d times", len(of[event.Pause](s)), n.get("deploy"))
			}
			rc := r.receipt(r.onlyCall(), 1)
			if rc.Fate != "" || rc.By != "ci" || rc.Kind != session.KindComplete {
				t.Errorf("the receipt is %+v", rc)
			}
			again, err := r.Resume(t.Context(), chat, runner.Complete(r.onlyCall(), "ci", text("v2")))
			if err != nil || !again.Receipts[0].Duplicate {
				t.Errorf("redelivered: %+v, %v", again, err)
			}
			r.acceptable()
		}
		t.Run("in the body "+string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			r = deploying(t, starting(effect, &n, func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
				if _, err := r.deliver(call.Token(), "v2"); err != nil {
					return nil, err
				}
				return pending()
			}))
			check(t, r, &n, r.say("Deploy."))
		})
		t.Run("just before the pause is written "+string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			r = deploying(t, starting(effect, &n, func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
				r.faults.Before(func(faultkv.Call) {
					r.faults.Before(nil)
					if _, err := r.deliver(call.Token(), "v2"); err != nil {
						t.Error(err)
					}
				})
				return pending()
			}))
			check(t, r, &n, r.say("Deploy."))
		})
	}
}

func TestAnswerWhileASiblingRuns(t *testing.T) {
	var n counter
	var r *rig
	let := make(chan struct{})
	token := make(chan string, 1)
	slow := tool.Must(tool.Func(tool.Spec{Name: "slow"}, func(_ context.Context, in textIn) (tool.Result[textOut], error) {
		n.add("slow")
		<-let
		return tool.Done(textOut(in)), nil
	}))
	deploy := starting(tool.Idempotent, &n, func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
		token <- call.Token()
		return tool.Pending[textOut](tool.Await{}), nil
	})
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{slow, deploy},
		Model: fakellm.New(fakellm.Calls("slow", `{"text":"a"}`).And("deploy", `{"text":"b"}`), fakellm.Says("Done.")),
	}, nil)
	ended := r.begin("Both.")
	if _, err := r.deliver(<-token, "v2"); err != nil { // before or after the pause is written: either is right
		t.Fatal(err)
	}
	close(let)
	ended().finished(event.FinishStop)
	calls := r.transcript().History[1].ToolCalls()
	if got := string(r.result(calls[1].ID).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
	if n.get("slow") != 1 || n.get("deploy") != 1 {
		t.Errorf("the bodies were entered %d times and %d times", n.get("slow"), n.get("deploy"))
	}
	r.acceptable()
}

func TestEarlyAnswerOutlivesTheBody(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		for name, in := range map[string]func(call string) runner.Resumption{
			"output":  func(call string) runner.Resumption { return runner.Complete(call, "ci", text("v2")) },
			"failure": func(call string) runner.Resumption { return runner.Fail(call, "ci", "no disk", false) },
		} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				var n counter
				entered := make(chan string, 1)
				r := deploying(t, starting(effect, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
					if n.get("deploy") > 1 {
						return tool.Done(textOut{"entered again"}), nil
					}
					entered <- call.ID
					<-ctx.Done()
					return nil, ctx.Err()
				}))
				ended := r.begin("Deploy.")
				call := <-entered
				_, err := r.Resume(t.Context(), chat, in(call))
				must(t, err)
				r.faults.Kill()
				r.restart()
				ended()
				r.carryOn().finished(event.FinishStop)
				if res := r.result(call); res.Error != (name == "failure") || name == "output" && string(res.Output) != string(text("v2")) {
					t.Errorf("the result is %s, error %v", res.Output, res.Error)
				}
				if rc := r.receipt(call, 1); rc.Fate != "" {
					t.Errorf("the receipt says %q", rc.Fate)
				}
				if n.get("deploy") != 1 {
					t.Errorf("the body was entered %d times", n.get("deploy"))
				}
				r.acceptable()
			})
		}
	}
}

// After a crash an answer comes for a call that the next drive takes for lost. Whenever it is accepted, it counts.
func TestAnswerWhileALostCallIsGivenUp(t *testing.T) {
	accepted := 0
	for at := 1; at <= 4; at++ {
		t.Run(fmt.Sprint("before write ", at), func(t *testing.T) {
			var n counter
			entered := make(chan string, 1)
			r := deploying(t, starting(tool.Once, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
				entered <- call.ID
				<-ctx.Done()
				return nil, ctx.Err()
			}))
			ended := r.begin("Deploy.")
			call := <-entered
			r.faults.Kill()
			r.restart()
			ended()
			writes, answered := 0, false
			r.faults.Before(func(faultkv.Call) {
				if writes++; writes == at {
					_, err := r.Resume(t.Context(), chat, runner.Complete(call, "ci", text("v2")))
					answered = err == nil
				}
			})
			r.carryOn().finished(event.FinishStop)
			if res := r.result(call); answered == res.Error || answered && string(res.Output) != string(text("v2")) {
				t.Errorf("answered: %v, and the result is %s", answered, res.Output)
			}
			if answered {
				accepted++
			}
			r.acceptable()
		})
	}
	if accepted == 0 {
		t.Error("it was never accepted")
	}
}

func TestFatesOfEarlyAnswers(t *testing.T) {
	type body = func(context.Context, tool.Call) (tool.Result[textOut], error)
	// early runs the body after an answer came for its pause, and says what became of the answer.
	early := func(t *testing.T, effect tool.Effect, then body) (*rig, *seen, session.Receipt) {
		var n counter
		var r *rig
		r = deploying(t, starting(effect, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
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
		r, s, rc := early(t, tool.Idempotent, func(context.Context, tool.Call) (tool.Result[textOut], error) {
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
		_, s, rc := early(t, tool.Once, func(context.Context, tool.Call) (tool.Result[textOut], error) {
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
		"refused by a question to the user":    {Reason: tool.ReasonInput, Mode: tool.ModeMessage, Schema: []byte(`{"type":["integer","string"]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			r, s, rc := early(t, tool.Once, asks(await))
			p := s.finished(event.FinishPaused).pause("deploy")
			if rc.Fate != session.Refused || p.Number != 1 {
				t.Fatalf("the receipt says %q; pause %d is open", rc.Fate, p.Number)
			}
			// The sender tries again: it hears the same, and the pause is not answered by it.
			res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
			must(t, err)
			if got := res.Receipts[0]; !got.Duplicate || got.Fate != session.Refused || !got.At.Equal(rc.At) {
				t.Errorf("redelivered: %+v", got)
			}
			if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil || st.Status != session.Pending {
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
				fates[rc.Fate] = rc.By
			}
			if len(st.Receipts) != 2 || fates[session.Refused] != "ci" || fates[""] != "ada" {
				t.Errorf("the receipts are %+v", st.Receipts)
			}
			if res, err = r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2"))); err != nil || !res.Receipts[0].Duplicate {
				t.Errorf("redelivered after the end: %+v, %v", res, err)
			}
			r.acceptable()
		})
	}
	t.Run("checked", func(t *testing.T) {
		var n counter
		var r *rig
		r = deploying(t, starting(tool.Once, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
			_, err := r.Resume(ctx, chat, runner.Complete(call.ID, "ci", []byte(`{"txt":"v2"}`)))
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
	r = deploying(t, starting(tool.Once, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
		first, err := r.deliver(call.Token(), "v2")
		must(t, err)
		again, err := r.deliver(call.Token(), "v2")
		if err != nil || !again.Duplicate || !again.At.Equal(first.At) {
			t.Errorf("again: %+v, %v", again, err)
		}
		var conflict *session.ConflictError
		if _, err := r.deliver(call.Token(), "v3"); !errors.As(err, &conflict) || conflict.Receipt.By != "ci" {
			t.Errorf("another: %v", err)
		}
		return tool.Pending[textOut](tool.Await{}), nil
	}))
	r.say("Deploy.").finished(event.FinishStop)
}

// A layer may ask again while an answer for the tool's own pause is kept: it gets a pause of its own.
func TestEarlyAnswerAndAGate(t *testing.T) {
	var n counter
	var r *rig
	gate := interceptor.Layer{Name: "gate", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
		return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
			if _, decided := call.Decided("gate"); decided {
				return next(ctx, call)
			}
			if _, err := r.Resume(ctx, chat, runner.Complete(call.ID, "ci", text("v2"))); err != nil {
				t.Error(err)
			}
			return tool.Execution{Await: &tool.Await{}}, nil
		}
	}}
	r = newRig(t, agent.Config{
		Tools:        []tool.Tool{waiting("deploy", tool.Idempotent, &n)},
		Interceptors: interceptor.Chain{gate},
		Model:        fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, nil)
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	if rc := r.receipt(p.Call, 1); p.Number != 2 || rc.Fate != session.Refused {
		t.Errorf("pause %d is open, and the receipt of the answer to pause 1 says %q", p.Number, rc.Fate)
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

// The caller has gone, and the body still runs: an answer that comes now makes the session a worker's.
func TestEarlyAnswerToAnInterruptedRun(t *testing.T) {
	var n counter
	entered, let := make(chan string, 1), make(chan struct{})
	r := deploying(t, starting(tool.Idempotent, &n, func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
		entered <- call.ID
		<-let
		return tool.Pending[textOut](tool.Await{}), nil
	}))
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan *seen, 1)
	go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Deploy."), nil)) }()
	call := <-entered
	leave()
	if s := <-ended; s.end.Finish != event.FinishInterrupted {
		t.Fatalf("the run ended as %s", s.end.Finish)
	}
	_, err := r.Resume(t.Context(), chat, runner.Complete(call, "ci", text("v2")))
	must(t, err)
	close(let)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if end, ok := ev.(event.End); ok && end.Finish == event.FinishStop {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the worker ended with %v", err)
	}
	if got := string(r.result(call).Output); got != string(text("v2")) || n.get("deploy") != 1 {
		t.Errorf("the result is %s; the body was entered %d times", got, n.get("deploy"))
	}
}

func TestUnknownKeyIsNotYetKnown(t *testing.T) {
	var n counter
	var r *rig
	r = deploying(t, starting(tool.Once, &n, func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
		_, err := r.Find(ctx, runner.Ref{Tool: "deploy", Key: "job-1"}, user) // the job is faster than the pause
		if !errors.Is(err, session.ErrNotYetKnown) || errors.Is(err, session.ErrUnknownPause) {
			t.Errorf("before the pause: %v", err)
		}
		return tool.Pending[textOut](tool.Await{Key: "job-1"}), nil
	}))
	r.say("Deploy.").finished(event.FinishPaused)
	p, err := r.Find(t.Context(), runner.Ref{Tool: "deploy", Key: "job-1"}, user)
	must(t, err)
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	over, err := r.Find(t.Context(), runner.Ref{Tool: "deploy", Key: "job-1"}, user)
	if err != nil || over.ID != p.ID || over.Await.Reason != "" {
		t.Errorf("after the end: %+v, %v", over, err)
	}
	if _, err := r.Find(t.Context(), runner.Ref{Tool: "deploy", Key: "job-2"}, user); !errors.Is(err, session.ErrNotYetKnown) {
		t.Errorf("a key of nobody: %v", err)
	}
}
