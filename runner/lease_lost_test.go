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
// the drive writes nothing more, although no other drive has taken over; and what
// others make of the session counts.
func TestBodiesAreToldOfALostLease(t *testing.T) {
	const lease = 30 * time.Second
	for name, test := range map[string]struct {
		happens func(disk *faultkv.Injector, slept *atomic.Int64)
		within  time.Duration // since then
	}{
		"the store hangs":          {func(disk *faultkv.Injector, _ *atomic.Int64) { disk.Stall(false) }, lease},
		"the store hangs, deaf":    {func(disk *faultkv.Injector, _ *atomic.Int64) { disk.Stall(true) }, lease},
		"the store fails":          {func(disk *faultkv.Injector, _ *atomic.Int64) { disk.Add(faultkv.FullFrom(disk.Applies() + 1)) }, lease},
		"the machine slept for it": {func(_ *faultkv.Injector, slept *atomic.Int64) { slept.Store(int64(lease)) }, lease / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				var at time.Time
				var slept atomic.Int64
				running := make(chan struct{})
				act := does(tool.Spec{Name: "act", Effect: tool.Idempotent}, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
					if told != nil { // by the next drive
						return tool.Done(textOut{"anew"}), nil
					}
					close(running)
					<-ctx.Done()
					told, at = context.Cause(ctx), time.Now()
					return tool.Done(textOut{"late"}), nil
				})
				var disk *faultkv.Injector
				r := newRig(t, agent.Config{Tools: []tool.Tool{act}, Model: messages(calls("act", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true, session: &session.Options{Now: func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }},
						wrap: func(kv kvstore.Store) kvstore.Store {
							disk = faultkv.New(hidden(kv))
							return disk.Store
						}})
				ran := make(chan *seen, 1)
				go func() { ran <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil)) }()
				<-running
				time.Sleep(time.Second)
				synctest.Wait()
				begun := time.Now()
				test.happens(disk, &slept)
				(<-ran).finished(event.FinishElsewhere)
				synctest.Wait()
				if took := at.Sub(begun); !errors.Is(told, session.ErrFenced) || took > test.within {
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
	for name, wrap := range map[string]func(kvstore.Store) kvstore.Store{"exclusive": nil, "shared": hidden} {
		t.Run(name, func(t *testing.T) {
			var fences []int64
			job := tool.Must(tool.Func(tool.Spec{Name: "job", Effect: tool.Idempotent, MayPause: true},
				func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
					c := tool.CallFrom(ctx)
					fences = append(fences, c.Fence)
					if len(fences) < 8 {
						return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter, Timeout: time.Hour}), nil
					}
					return tool.Done(textOut(in)), nil
				}))
			r := newRig(t, agent.Config{Tools: []tool.Tool{job}, Concurrency: 1,
				Model: messages(calls("job", `{"text":"a"}`, "job", `{"text":"b"}`), says("Done."))}, &rigOptions{wrap: wrap})
			s := r.say("Go.").finished(event.FinishPaused)
			for range 3 {
				s = r.answer(runner.Complete(s.end.Pending[0].ID, "ci", text("on"))).finished(event.FinishPaused)
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
