package runner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestBodiesAreToldOfALostLease: a body runs, and the store doesn't answer any
// more; or the machine has slept, so that only the wall clock has gone on. The
// body is told before the lease is over for others, by a cause that says so;
// the drive writes nothing more, although no other drive has taken over; and
// what others make of the session counts.
func TestBodiesAreToldOfALostLease(t *testing.T) {
	const lease = 30 * time.Second
	for name, test := range map[string]struct {
		happens func(disk *faultkv.Injector, slept *atomic.Int64)
		within  time.Duration // since then
	}{
		"the store hangs": {
			func(disk *faultkv.Injector, _ *atomic.Int64) { disk.Stall(false) }, lease,
		},
		"the store hangs, deaf": {
			func(disk *faultkv.Injector, _ *atomic.Int64) { disk.Stall(true) }, lease,
		},
		"the store fails": {func(disk *faultkv.Injector, _ *atomic.Int64) {
			disk.Add(faultkv.FullFrom(disk.Applies() + 1))
		}, lease},
		"the machine slept for it": {func(_ *faultkv.Injector, slept *atomic.Int64) {
			slept.Store(int64(lease))
		}, lease / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				var at time.Time
				var slept atomic.Int64
				running := make(chan struct{})
				act := does(tool.Spec{Name: "act", Effect: tool.Idempotent},
					func(ctx context.Context, _ string) (tool.Result[textOut], error) {
						if told != nil { // by the next drive
							return tool.Done(textOut{"anew"}), nil
						}
						close(running)
						<-ctx.Done()
						told, at = context.Cause(ctx), time.Now()
						return tool.Done(textOut{"late"}), nil
					})
				var disk *faultkv.Injector
				r := newRig(t, agent.Config{Tools: []tool.Tool{act},
					Model: messages(calls("act", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true, session: &session.Options{Now: func() time.Time {
						return time.Now().Add(time.Duration(slept.Load()))
					}},
						wrap: func(kv kvstore.Store) kvstore.Store {
							disk = faultkv.New(hidden(kv))
							return disk.Store
						}})
				ran := make(chan *seen, 1)
				go func() {
					ran <- watch(t, r.Run(context.Background(), user, chat,
						llm.UserText("Go."), nil))
				}()
				<-running
				time.Sleep(time.Second)
				synctest.Wait()
				begun := time.Now()
				test.happens(disk, &slept)
				(<-ran).finished(event.FinishElsewhere)
				synctest.Wait()
				if took := at.Sub(begun); !errors.Is(told, session.ErrFenced) ||
					took > test.within {
					t.Errorf("after %v the body was told %v", took, told)
				}
				applies := disk.Applies()
				disk.Heal()
				for range 4 { // which sees the lease of the one that lost it, and waits it out
					_ = r.transcript()
					time.Sleep(lease)
				}
				if disk.Applies() != applies {
					t.Errorf("the drive that lost its lease wrote %d times", disk.Applies()-applies)
				}
				r.carryOn().finished(event.FinishStop)
				if got := string(r.result(r.asked("act")).Output); got != string(text("anew")) {
					t.Errorf("the model is told %s", got)
				}
				must(t, r.Close())
			})
		})
	}
}

// TestFence: bodies of one drive have one fence, and every later drive of the
// session a greater one, also in another process.
func TestFence(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			var fences []int64
			job := tool.Must(tool.Func(tool.Spec{Name: "job",
				Effect: tool.Idempotent, MayPause: true},
				func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
					c := tool.CallFrom(ctx)
					fences = append(fences, c.Fence)
					if len(fences) < 8 {
						return tool.Pending[textOut](tool.Await{
							Mode: tool.ModeReenter, Timeout: time.Hour,
						}), nil
					}
					return tool.Done(textOut(in)), nil
				}))
			r := newRig(t, agent.Config{Tools: []tool.Tool{job}, Concurrency: 1,
				Model: messages(calls("job", `{"text":"a"}`,
					"job", `{"text":"b"}`), says("Done."))}, &rigOptions{wrap: wrap})
			s := r.say("Go.").finished(event.FinishPaused)
			for range 3 {
				s = r.answer(runner.Complete(s.end.Pending[0].ID,
					"ci", text("on"))).finished(event.FinishPaused)
				r.restart()
				s = r.answer(runner.Complete(s.end.Pending[1].ID, "ci", text("on")))
			}
			if len(fences) != 8 || fences[0] == 0 || fences[0] != fences[1] {
				t.Fatalf("the fences are %v", fences)
			}
			for i := 2; i < len(fences); i++ {
				if fences[i] <= fences[i-1] {
					t.Errorf("the fences are %v", fences)
				}
			}
		})
	}
}

// A drive that was stopped past its lease wakes up. It may neither write nor
// enter a body, and what the model said to it is dropped.
func TestFencing(t *testing.T) {
	var n counter
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	asked, wake := make(chan struct{}, 2), make(chan struct{})
	stopped := true
	script := messages(calls("act", `{"text":"a"}`), says("Done."))
	model := modelFunc(func(r llm.Request) []llm.Event {
		if stopped {
			stopped = false
			asked <- struct{}{}
			<-wake // the process is stopped
		}
		return script(r)
	})
	r := newRig(t, agent.Config{Tools: []tool.Tool{instant("act", tool.Once, &n)}, Model: model},
		&rigOptions{
			memory: true, wrap: hidden,
			session: &session.Options{Now: func() time.Time { return now },
				MaxSkew: time.Millisecond},
		})
	first := make(chan *seen)
	go func() {
		first <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
	}()
	<-asked
	other := r.another()
	if err := watch(t,
		other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
		t.Errorf("while the lease lasts, another driver gets %v", err)
	}
	now = now.Add(time.Minute)
	watch(t, other.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	close(wake)
	if run := <-first; run.end.Finish != event.FinishElsewhere || run.err != nil {
		t.Errorf("the drive that lost its lease ended as %q with %v", run.end.Finish, run.err)
	}
	if n.get("act") != 1 {
		t.Errorf("the body was entered %d times", n.get("act"))
	}
	if got := len(r.transcript().History); got != 4 {
		t.Errorf("%d messages are stored", got)
	}
	r.acceptable()
}

// stopped is an agent whose driver is stopped right before it enters the body
// of act, the first time: it has got there, and goes on with wake.
type stopped struct {
	agent.Config
	n         counter
	got, wake chan struct{}
}

func stop() *stopped {
	s := &stopped{got: make(chan struct{}), wake: make(chan struct{})}
	var before atomic.Bool
	s.Config = agent.Config{
		Tools: []tool.Tool{instant("act", tool.Once, &s.n)},
		Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
		Interceptors: interceptor.Chain{{Name: "stop",
			Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					if !before.Swap(true) {
						close(s.got)
						<-s.wake
					}
					return next(ctx, c)
				}
			}}},
	}
	return s
}

// A driver was stopped past its lease, and another one has driven its session
// since. It enters no body when it wakes.
func TestStoppedDriverEntersNoBody(t *testing.T) {
	clock := newClock()
	s := stop()
	r := newRig(t, s.Config, &rigOptions{memory: true, wrap: hidden,
		session: &session.Options{Now: clock.now, MaxSkew: time.Millisecond}})
	run := make(chan *seen, 1)
	go func() {
		run <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
	}()
	<-s.got
	other := r.another()
	if err := watch(t,
		other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
		t.Errorf("while the lease lasts, another driver gets %v", err)
	}
	clock.pass(session.DefaultLease + time.Second)
	watch(t, other.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	close(s.wake)
	if run := <-run; run.err != nil {
		t.Errorf("the driver that lost its lease ended with %v", run.err)
	}
	if s.n.get("act") != 1 || len(r.transcript().History) != 4 {
		t.Errorf("the body was entered %d times, and there are %d messages", s.n.get("act"),
			len(r.transcript().History))
	}
	r.acceptable()
}

// A driver that could not renew its lease enters no body with the rest of it.
// It takes the lease anew as soon as it can, while it lasts. Once the lease is
// over, it is lost, though no other drive has come.
func TestLeaseIsTakenAnew(t *testing.T) {
	for name, outage := range map[string]time.Duration{
		"too little is left": session.DefaultLease * 3 / 4,
		"nothing is left":    2*session.DefaultLease - 5*time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var disk *faultkv.Injector
				s := stop()
				r := newRig(t, s.Config, &rigOptions{memory: true,
					wrap: func(kv kvstore.Store) kvstore.Store {
						disk = faultkv.New(hidden(kv))
						return disk.Store
					}})
				run := make(chan *seen, 1)
				go func() {
					run <- watch(t, r.Run(context.Background(), user, chat,
						llm.UserText("Go."), nil))
				}()
				<-s.got
				disk.Add(faultkv.FullFrom(disk.Applies() + 1))
				time.Sleep(outage)
				disk.Heal()
				close(s.wake)
				if outage < session.DefaultLease {
					(<-run).finished(event.FinishStop)
				} else {
					(<-run).finished(event.FinishElsewhere)
					// it may be another process's
					if err := r.carryOn().err; !errors.Is(err, session.ErrBusy) {
						t.Errorf("at once, another drive gets %v", err)
					}
					time.Sleep(2 * session.DefaultLease)
					r.carryOn().finished(event.FinishStop)
				}
				must(t, r.Close())
				if s.n.get("act") != 1 || disk.Struck() == 0 {
					t.Errorf("the body was entered %d times after %d failures",
						s.n.get("act"), disk.Struck())
				}
				r.acceptable()
			})
		})
	}
}

// A drive learns, as it is about to enter a body, that another one has taken
// its lease. It ends, and doesn't try again for as long as the other one works.
func TestFencedBeforeTheBody(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var tries atomic.Int32
			at := newClock()
			reached, first, second := make(chan struct{}, 2),
				make(chan struct{}), make(chan struct{})
			brake := interceptor.Layer{Name: "brake",
				Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
					return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
						switch tries.Add(1) {
						case 1:
							reached <- struct{}{}
							<-first
						case 2:
							reached <- struct{}{}
							<-second
						}
						return next(ctx, c)
					}
				}}
			r := newRig(t, agent.Config{
				Tools:        []tool.Tool{instant("act", effect, &n)},
				Interceptors: interceptor.Chain{brake},
				Model:        messages(calls("act", `{"text":"a"}`), says("Done.")),
			}, &rigOptions{memory: true, wrap: hidden, session: &session.Options{Now: at.now,
				MaxSkew: time.Millisecond}})
			ended := r.begin("Act.")
			<-reached
			at.pass(time.Hour)
			other, carriedOn := r.another(), make(chan *seen, 1)
			go func() { carriedOn <- watch(t, other.Continue(t.Context(), chat, user)) }()
			<-reached
			close(first)
			ended().finished(event.FinishElsewhere)
			close(second)
			(<-carriedOn).finished(event.FinishStop)
			if tries.Load() > 2 || effect == tool.Once && n.get("act") != 1 {
				t.Errorf("the call was tried %d times, and its body entered %d times",
					tries.Load(), n.get("act"))
			}
		})
	}
}
