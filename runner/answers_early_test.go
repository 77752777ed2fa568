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

func TestAnswerFasterThanThePause(t *testing.T) {
	pending := func() (tool.Result[textOut], error) {
		return tool.Pending[textOut](tool.Await{Key: "job-1"}), nil
	}
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		check := func(t *testing.T, r *rig, n *counter, s *seen) {
			t.Helper()
			s.finished(event.FinishStop)
			if got := string(r.result(r.onlyCall()).Output); got != string(text("v2")) {
				t.Errorf("the result is %s", got)
			}
			if len(of[event.Pause](s)) != 0 || n.get("deploy") != 1 {
				t.Errorf("it showed %d pauses, and entered the body %d times",
					len(of[event.Pause](s)), n.get("deploy"))
			}
			rc := r.receipt(r.onlyCall(), 1)
			if rc.Fate != "" || rc.Actor != "ci" || rc.Kind != session.KindComplete {
				t.Errorf("the receipt is %+v", rc)
			}
			again, err := r.Resume(t.Context(), chat,
				runner.Complete(r.onlyCall(), "ci", text("v2")))
			if err != nil || !again.Receipts[0].Duplicate {
				t.Errorf("redelivered: %+v, %v", again, err)
			}
			r.acceptable()
		}
		t.Run("in the body "+string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			r = deploying(t,
				starting(effect, &n,
					func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
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
			r = deploying(t,
				starting(effect, &n,
					func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
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
	slow := tool.Must(tool.Func(tool.Spec{Name: "slow"},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			n.add("slow")
			<-let
			return tool.Done(textOut(in)), nil
		}))
	deploy := starting(tool.Idempotent, &n,
		func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
			token <- call.Token()
			return tool.Pending[textOut](tool.Await{}), nil
		})
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{slow, deploy},
		Model: fakellm.New(fakellm.Calls("slow", `{"text":"a"}`).And("deploy", `{"text":"b"}`),
			fakellm.Says("Done.")),
	}, nil)
	ended := r.begin("Both.")
	// before or after the pause is written: either is right
	if _, err := r.deliver(<-token, "v2"); err != nil {
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
			"output": func(call string) runner.Resumption {
				return runner.Complete(call, "ci", text("v2"))
			},
			"failure": func(call string) runner.Resumption {
				return runner.Fail(call, "ci", "no disk", false)
			},
		} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				var n counter
				entered := make(chan string, 1)
				r := deploying(t,
					starting(effect, &n,
						func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
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
				if res := r.result(call); res.Error != (name == "failure") || name == "output" &&
					string(res.Output) != string(text("v2")) {
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

// After a crash an answer comes for a call that the next drive takes for lost.
// Whenever it is accepted, it counts.
func TestAnswerWhileALostCallIsGivenUp(t *testing.T) {
	accepted := 0
	for at := 1; at <= 4; at++ {
		t.Run(fmt.Sprint("before write ", at), func(t *testing.T) {
			var n counter
			entered := make(chan string, 1)
			r := deploying(t, starting(tool.Once, &n,
				func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
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
			if res := r.result(call); answered == res.Error || answered &&
				string(res.Output) != string(text("v2")) {
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

// The caller has gone, and the body still runs. An answer that comes now makes
// the session due, and a worker takes it.
func TestEarlyAnswerToAnInterruptedRun(t *testing.T) {
	var n counter
	entered, let := make(chan string, 1), make(chan struct{})
	r := deploying(t, starting(tool.Idempotent, &n,
		func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
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

// An answer to a call that hasn't begun goes around no gate: the gate asks
// first.
func TestAnswerBeforeTheCallIsBegunPassesTheGates(t *testing.T) {
	for name, decide := range map[string]func(string) runner.Resumption{
		"approved": func(p string) runner.Resumption { return runner.Approve(p, "eve", "") },
		"denied":   func(p string) runner.Resumption { return runner.Deny(p, "eve", "not today") },
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			first, entered, let := heldUp("first", "first")
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{first, waiting("deploy", tool.Idempotent, &n)},
				Interceptors: interceptor.Chain{
					passes, // so that the gate is asked once the call's turn has come
					interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"deploy"}}),
				},
				Model: fakellm.New(fakellm.Calls("first", `{"text":"a"}`).And("deploy",
					`{"text":"b"}`), fakellm.Says("Done.")),
				Concurrency: 1,
			}, nil)
			ended := r.begin("Go.")
			<-entered
			call := r.transcript().History[1].ToolCalls()[1].ID
			_, err := r.Resume(t.Context(), chat, runner.Complete(call, "ci", text("v2")))
			must(t, err)
			close(let)
			p := ended().finished(event.FinishPaused).pause("deploy")
			if p.Await.Gate != "approval" {
				t.Fatalf("it waits for %+v", p.Await)
			}
			r.restart()
			r.answer(decide(p.ID)).finished(event.FinishStop)
			res := r.result(call)
			if approved := name == "approved"; res.Error == approved || approved &&
				string(res.Output) != string(text("v2")) {
				t.Errorf("the result is %s", res.Output)
			}
			if n.get("deploy") != 0 {
				t.Error("the body was entered, although its answer was there")
			}
			r.acceptable()
		})
	}
}
