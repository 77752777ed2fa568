package runner_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// sleeper is an agent whose tool sleeps once, for so long.
func sleeper(n *counter, d time.Duration) agent.Config {
	sleep := tool.Must(tool.Func(tool.Spec{Name: "sleep", MayPause: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			n.add("sleep")
			if tool.CallFrom(ctx).Answer != nil {
				return tool.Done(textOut{"rested"}), nil
			}
			return tool.Pending[textOut](tool.Await{Reason: tool.ReasonTimer, Timeout: d}), nil
		}))
	return agent.Config{
		Model: fakellm.New(fakellm.Calls("sleep", `{"text":"a"}`), fakellm.Says("Good morning.")),
		Tools: []tool.Tool{sleep},
	}
}

// works lets runners work until the test ends.
func works(t *testing.T, runners ...*runner.Runner) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, len(runners))
	for _, rn := range runners {
		go func() {
			defer func() { ended <- struct{}{} }()
			_ = rn.Work(ctx, nil)
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range runners {
			<-ended
		}
	})
}

// TestTimerFiresOnce: although several workers share the store, at its time,
// and not before.
func TestTimerFiresOnce(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				r := newRig(t, sleeper(&n, time.Minute), &rigOptions{memory: true, wrap: wrap})
				p := r.say("Sleep.").finished(event.FinishPaused).pause("sleep")
				works(t, r.Runner, r.another(), r.another())
				time.Sleep(time.Until(p.Deadline) - time.Second)
				if n.get("sleep") != 1 {
					t.Error("it fired before its time")
				}
				time.Sleep(10 * time.Second)
				if got := r.transcript(); got.Finish != event.FinishStop || n.get("sleep") != 2 ||
					len(got.History) != 4 {
					t.Errorf("it is shown as %q with %d messages; the body was entered %d times",
						got.Finish, len(got.History), n.get("sleep"))
				}
				time.Sleep(5 * time.Minute)
				if got := r.transcript(); n.get("sleep") != 2 || len(got.History) != 4 {
					t.Errorf("five minutes later, the body was entered %d times, and there are %d messages", n.get("sleep"), len(got.History))
				}
			})
		})
	}
}

// TestTimersOfAllLengths: none of them is a deadline in the past by overflow,
// and none waits for what is over.
func TestTimersOfAllLengths(t *testing.T) {
	for d, over := range map[time.Duration]bool{0: true, -time.Hour: true, math.MinInt64: true,
		1: true, math.MaxInt64: false, 100 * 365 * 24 * time.Hour: false} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				r := newRig(t, sleeper(&n, d), &rigOptions{memory: true})
				works(t, r.Runner)
				run := r.say("Sleep.")
				time.Sleep(time.Minute)
				if got := r.transcript(); (got.Finish == event.FinishStop) != over ||
					len(got.Pending) > 0 == over {
					t.Fatalf("the run ended as %q, and a minute later it is shown as %q",
						run.end.Finish, got.Finish)
				}
				if over {
					return
				}
				r.restart()
				if p := r.transcript().Pending[0]; p.Deadline.Before(time.Now().AddDate(99, 0, 0)) {
					t.Errorf("it is to end at %v", p.Deadline)
				}
			})
		})
	}
}

// TestCancelledSleep: it does not wake.
func TestCancelledSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, sleeper(&n, time.Minute), &rigOptions{memory: true})
		p := r.say("Sleep.").finished(event.FinishPaused).pause("sleep")
		works(t, r.Runner, r.another())
		_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "no time")
		must(t, err)
		time.Sleep(2 * time.Minute)
		if res := r.result(p.Call); n.get("sleep") != 1 || !strings.Contains(string(res.Output),
			"Cancelled: no time. The work had begun") {
			t.Errorf("the body was entered %d times; the model reads %s",
				n.get("sleep"), res.Output)
		}
		if got := r.transcript().Finish; got != event.FinishStop {
			t.Errorf("it is shown as %q", got)
		}
	})
}

// TestOverdueAfterARestart: what came due while no process ran is done soon
// after one does, once.
func TestOverdueAfterARestart(t *testing.T) {
	var n counter
	now := newClock()
	r := newRig(t, sleeper(&n, time.Second), &rigOptions{session: &session.Options{Now: now.now}})
	p := r.say("Sleep.").finished(event.FinishPaused).pause("sleep")
	now.pass(200 * time.Millisecond)
	r.restart()
	r.carryOn().finished(event.FinishPaused)
	now.pass(3 * time.Second)
	r.restart()
	ctx, cancel := context.WithCancel(t.Context())
	_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if _, ok := ev.(event.End); ok {
			cancel()
		}
	}})
	if n.get("sleep") != 2 || string(r.result(p.Call).Output) != string(text("rested")) {
		t.Errorf("the body was entered %d times; the result is %s",
			n.get("sleep"), r.result(p.Call).Output)
	}
	r.acceptable()
}

// TestTimersWithoutEnd: a tool that doesn't look at its answer is slowed down,
// and then fails by name; one that asks for long timers may go on for ever.
func TestTimersWithoutEnd(t *testing.T) {
	t.Parallel()
	for d, ends := range map[time.Duration]bool{0: true,
		999 * time.Millisecond: true, time.Second: false} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				tick := tool.Must(tool.Func(tool.Spec{Name: "tick",
					MayPause: true, Effect: tool.ReadOnly},
					func(context.Context, textIn) (tool.Result[textOut], error) {
						n.add("tick")
						return tool.Pending[textOut](tool.Await{
							Reason: tool.ReasonTimer, Timeout: d,
						}), nil
					}))
				r := newRig(t, agent.Config{
					Model: fakellm.New(fakellm.Calls("tick", `{"text":"a"}`),
						fakellm.Says("Never mind.")), Tools: []tool.Tool{tick},
				}, &rigOptions{memory: true})
				works(t, r.Runner)
				r.say("Tick.")
				time.Sleep(10 * time.Minute)
				got := r.transcript()
				switch {
				case !ends:
					if got.Finish == event.FinishStop || n.get("tick") < 500 {
						t.Errorf("after %d timers of %v it is %q", n.get("tick"), d, got.Finish)
					}
				case got.Finish != event.FinishStop || n.get("tick") != 201:
					t.Errorf("after %d timers of %v it is %q", n.get("tick"), d, got.Finish)
				case !strings.Contains(r.outputs()[0],
					"tick has paused 200 times, and asks for a timer of "+d.String()):
					t.Errorf("the model reads %s", r.outputs()[0])
				}
			})
		})
	}
}
