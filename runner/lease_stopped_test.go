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
	"github.com/fermata-ai/fermata/tool"
)

// stopped is an agent whose driver is stopped right before it enters the body of act, the first time: it has got there, and goes
// on with wake.
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
		Interceptors: interceptor.Chain{{Name: "stop", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
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

// A driver that was stopped past its lease, and whose session another one has driven since, enters no body when it wakes.
func TestStoppedDriverEntersNoBody(t *testing.T) {
	clock := newClock()
	s := stop()
	r := newRig(t, s.Config, &rigOptions{memory: true, wrap: hidden, session: &session.Options{Now: clock.now, MaxSkew: time.Millisecond}})
	run := make(chan *seen, 1)
	go func() { run <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil)) }()
	<-s.got
	other := r.another()
	if err := watch(t, other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
		t.Errorf("while the lease lasts, another driver gets %v", err)
	}
	clock.pass(session.DefaultLease + time.Second)
	watch(t, other.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	close(s.wake)
	if run := <-run; run.err != nil {
		t.Errorf("the driver that lost its lease ended with %v", run.err)
	}
	if s.n.get("act") != 1 || len(r.transcript().History) != 4 {
		t.Errorf("the body was entered %d times, and there are %d messages", s.n.get("act"), len(r.transcript().History))
	}
	r.acceptable()
}

// One that could not renew its lease enters nothing with what is left of it. It
// takes it anew as soon as it can, while it lasts; once it is over, it is lost,
// though no other drive has come.
func TestLeaseIsTakenAnew(t *testing.T) {
	for name, outage := range map[string]time.Duration{"too little is left": session.DefaultLease * 3 / 4, "nothing is left": 2*session.DefaultLease - 5*time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var disk *faultkv.Injector
				s := stop()
				r := newRig(t, s.Config, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					disk = faultkv.New(hidden(kv))
					return disk.Store
				}})
				run := make(chan *seen, 1)
				go func() { run <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil)) }()
				<-s.got
				disk.Add(faultkv.FullFrom(disk.Applies() + 1))
				time.Sleep(outage)
				disk.Heal()
				close(s.wake)
				if outage < session.DefaultLease {
					(<-run).finished(event.FinishStop)
				} else {
					(<-run).finished(event.FinishElsewhere)
					if err := r.carryOn().err; !errors.Is(err, session.ErrBusy) { // it may be another process's
						t.Errorf("at once, another drive gets %v", err)
					}
					time.Sleep(2 * session.DefaultLease)
					r.carryOn().finished(event.FinishStop)
				}
				must(t, r.Close())
				if s.n.get("act") != 1 || disk.Struck() == 0 {
					t.Errorf("the body was entered %d times after %d failures", s.n.get("act"), disk.Struck())
				}
				r.acceptable()
			})
		})
	}
}
