package runner_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestBodyRunsAfterTheMessageIsStored(t *testing.T) {
	var r *rig
	look := func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
		stored, err := r.Show(ctx, chat, user)
		if err != nil {
			return nil, err
		}
		call := tool.CallFrom(ctx)
		last := stored.History[len(stored.History)-1].ToolCalls()
		if len(last) != 1 || last[0].ID != call.ID {
			return nil, fmt.Errorf("call %s is entered, and the last message in the store asks for %v", call.ID, last)
		}
		return tool.Done(textOut{"stored"}), nil
	}
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{
					tool.Must(tool.Func(tool.Spec{Name: "look", Effect: effect}, look)),
				},
				Model: fakellm.New(fakellm.Calls("look", `{"text":"a"}`), fakellm.Says("Done.")),
			}, nil)
			for _, res := range of[event.Result](r.say("Look.").finished(event.FinishStop)) {
				if res.Status != event.Done {
					t.Errorf("%s", res.Result.Output)
				}
			}
		})
	}
}

func TestCallsThatAreNeverEntered(t *testing.T) {
	deny := interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"touch"},
		Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
			return interceptor.Verdict{Ruling: interceptor.Deny, Reason: "not on a Sunday"}, nil
		}})
	for _, c := range []struct {
		name, tool, args string
		chain            interceptor.Chain
		status           event.Status
		says             string // to the model
	}{
		{"unknown tool", "touhc", `{"text":"a"}`, nil, event.Failed, "touch"},
		{"arguments that don't fit", "touch", `{"txt":"a"}`, nil, event.Failed, "text"},
		{"arguments that are no JSON", "touch", `{"text":`, nil, event.Failed, "JSON"},
		{"refused by a policy", "touch", `{"text":"a"}`, interceptor.Chain{deny},
			event.Denied, "not on a Sunday"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Tools:        []tool.Tool{instant("touch", tool.Once, &n)},
				Interceptors: c.chain,
				Model:        fakellm.New(fakellm.Calls(c.tool, c.args), fakellm.Says("I see.")),
			}, nil)
			results := of[event.Result](r.say("Touch it.").finished(event.FinishStop))
			if len(results) != 1 || results[0].Status != c.status ||
				!strings.Contains(string(results[0].Result.Output), c.says) {
				t.Errorf("it settled as %v, not as %s with %q", results, c.status, c.says)
			}
			if n.get("touch") != 0 {
				t.Error("the body was entered")
			}
			r.acceptable()
		})
	}
}

func TestCancelledBeforeItsTurnIsNeverEntered(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			first, entered, let := heldUp("first", "first")
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{first, instant("touch", effect, &n)},
				Model: fakellm.New(fakellm.Calls("first", `{"text":"a"}`).And("touch",
					`{"text":"b"}`), fakellm.Says("Done.")),
				Concurrency: 1,
			}, nil)
			ended := r.begin("Go.")
			<-entered
			touch := r.transcript().History[1].ToolCalls()[1].ID
			_, err := r.Cancel(t.Context(), chat, touch, "ada", "no need")
			must(t, err)
			close(let)
			ended().finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, touch, user)
			must(t, err)
			if st.Settled != event.Cancelled || st.Actor != "ada" ||
				!strings.Contains(string(st.Output), "no need") {
				t.Errorf("it ended as %s by %q with %s", st.Settled, st.Actor, st.Output)
			}
			if n.get("touch") != 0 {
				t.Error("the body was entered")
			}
			r.acceptable()
		})
	}
}

func TestGatePausesBeforeTheBody(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"5 EUR"}`),
			fakellm.Says("Refunded.")),
	}, nil)
	p := r.say("Refund it.").finished(event.FinishPaused).pause("refund")
	if p.Await.Gate != "approval" || p.Await.Reason != tool.ReasonApproval || p.Number != 1 {
		t.Errorf("it waits for %+v", p)
	}
	if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
		st.Status != session.Pending || st.Attempt != 0 {
		t.Errorf("the call is %+v, %v", st, err)
	}
	if n.get("refund") != 0 {
		t.Fatal("the body was entered before anybody decided")
	}
	r.restart()
	r.answer(runner.Approve(p.ID, "eve", "")).finished(event.FinishStop)
	if n.get("refund") != 1 {
		t.Errorf("the body was entered %d times", n.get("refund"))
	}
	r.acceptable()
}

func TestClaimComesBeforeTheBody(t *testing.T) {
	for _, c := range []struct {
		effect  tool.Effect
		status  session.CallStatus // while the body runs
		attempt int
	}{
		{tool.Once, session.Running, 1},
		{tool.Idempotent, session.Requested, 0},
		{tool.ReadOnly, session.Requested, 0},
	} {
		t.Run(string(c.effect), func(t *testing.T) {
			var r *rig
			var before, inside session.Call
			stored := func(ctx context.Context) session.Call {
				st, err := r.store.Load(ctx, chat)
				if err != nil || len(st.Calls) != 1 {
					return session.Call{}
				}
				return st.Calls[0]
			}
			layer := interceptor.Layer{Name: "look",
				Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
					return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
						before = stored(ctx)
						return next(ctx, call)
					}
				}}
			body := func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
				inside = stored(ctx)
				return tool.Done(textOut(in)), nil
			}
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{
					tool.Must(tool.Func(tool.Spec{Name: "act", Effect: c.effect}, body)),
				},
				Interceptors: interceptor.Chain{layer},
				Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`),
					fakellm.Says("Done.")),
			}, nil)
			r.say("Act.").finished(event.FinishStop)
			if before.Status != session.Requested || before.Attempt != 0 {
				t.Errorf("inside the layers the call is %s, attempt %d",
					before.Status, before.Attempt)
			}
			if inside.Status != c.status || inside.Attempt != c.attempt {
				t.Errorf("inside the body the call is %s, attempt %d, not %s, %d", inside.Status,
					inside.Attempt, c.status, c.attempt)
			}
		})
	}
}

func TestCrashBeforeTheClaim(t *testing.T) {
	var n counter
	var r *rig
	layer := interceptor.Layer{Name: "look",
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
				if n.add("layer") == 1 {
					// the claim is the next to be written
					r.faults.Add(faultkv.FailAt(r.faults.Applies() + 1).AndDie())
				}
				return next(ctx, call)
			}
		}}
	r = newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("act", tool.Once, &n)},
		Interceptors: interceptor.Chain{layer},
		Model:        fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("Done.")),
	}, nil)
	if s := r.say("Act."); !errors.Is(s.err, faultkv.ErrFault) {
		t.Fatalf("the run ended with %v", s.err)
	}
	if n.get("act") != 0 {
		t.Fatal("the body was entered without a claim")
	}
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if n.get("layer") != 2 || n.get("act") != 1 {
		t.Errorf("the layer ran %d times and the body %d times, not twice and once",
			n.get("layer"), n.get("act"))
	}
	r.acceptable()
}

func TestBodyFailuresSettle(t *testing.T) {
	for _, c := range []struct {
		name string
		body func(context.Context, *testing.T) error
		says string // to the model
	}{
		{"error", func(context.Context, *testing.T) error {
			return errors.New("no such order")
		}, "no such order"},
		{"panic", func(context.Context, *testing.T) error { panic("boom") }, "panic"},
		{"nil map", func(context.Context, *testing.T) error {
			var m map[string]int
			//lint:ignore SA5000 it is to panic, as a tool would
			m["a"] = 1
			return nil
		}, "panic"},
		{"end of its goroutine", func(context.Context, *testing.T) error {
			runtime.Goexit()
			return nil
		}, "act"},
		{"time-out", func(ctx context.Context, _ *testing.T) error {
			<-ctx.Done()
			return ctx.Err()
		}, "did not end"},
		{"time-out of a body that doesn't listen", func(ctx context.Context, t *testing.T) error {
			<-ctx.Done()
			<-t.Context().Done()
			return nil
		}, "did not end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				act := tool.Must(tool.Func(tool.Spec{Name: "act", Timeout: 20 * time.Millisecond},
					func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
						if err := c.body(ctx, t); err != nil {
							return nil, err
						}
						return tool.Done(textOut(in)), nil
					}))
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{act},
					Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`),
						fakellm.Says("It failed.")),
				}, &rigOptions{memory: true})
				results := of[event.Result](r.say("Act.").finished(event.FinishStop))
				status := event.Failed
				if strings.HasPrefix(c.name, "time-out") {
					status = event.TimedOut
				}
				if len(results) != 1 || results[0].Status != status ||
					!results[0].Result.Error {
					t.Fatalf("it settled as %v", results)
				}
				if got := string(results[0].Result.Output); !strings.Contains(got, c.says) ||
					strings.Contains(got, "runtime.") {
					t.Errorf("the model reads %s", got)
				}
				r.acceptable()
			})
		})
	}
}

// TestLateResultOfATimeout: the call has its result when its time is over, and
// its place is free for the next one; what the body comes back with later
// changes nothing.
func TestLateResultOfATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{}, 2)
		deaf := does(tool.Spec{Name: "deaf", Timeout: time.Second, MayPause: true},
			func(_ context.Context, what string) (tool.Result[textOut], error) {
				defer func() { late <- struct{}{} }()
				time.Sleep(time.Minute)
				if what == "pause" {
					return tool.Pending[textOut](tool.Await{}), nil
				}
				return tool.Done(textOut{"late"}), nil
			})
		var n counter
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("deaf", "done", "pause").And("ok", `{"text":"a"}`),
				fakellm.Says("I see.")), Concurrency: 1,
			Tools: []tool.Tool{deaf, instant("ok", tool.Once, &n)},
		}, &rigOptions{memory: true})
		start := time.Now()
		run := r.say("Go.").finished(event.FinishStop)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the run took %v", took)
		}
		before := printed(r.transcript())
		<-late
		<-late
		synctest.Wait()
		if after := printed(r.transcript()); after != before {
			t.Errorf("what came late changed the session: %s", after)
		}
		for i, res := range of[event.Result](run) {
			if over := strings.Contains(string(res.Result.Output),
				"did not end within 1s. Whether it took effect is unknown"); over != (i < 2) {
				t.Errorf("result %d is %s", i, res.Result.Output)
			}
		}
	})
}
