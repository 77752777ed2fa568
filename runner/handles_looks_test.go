package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// asked counts what is asked of an engine that several processes might share.
type asked struct {
	kvstore.Store
	gets, scans, applies atomic.Int64
}

func (a *asked) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	a.gets.Add(1)
	return a.Store.Get(ctx, key)
}

func (a *asked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	a.scans.Add(1)
	return a.Store.Scan(ctx, r)
}

func (a *asked) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	a.applies.Add(1)
	return a.Store.Apply(ctx, b)
}

// during returns the reads of single keys, the scans and the commits that a
// while takes.
func (a *asked) during(t time.Duration) [3]int64 {
	synctest.Wait()
	a.gets.Store(0)
	a.scans.Store(0)
	a.applies.Store(0)
	time.Sleep(t)
	synctest.Wait()
	return [3]int64{a.gets.Load(), a.scans.Load(), a.applies.Load()}
}

// echoes is a Process whose bodies show each input that they get, and run until
// they are stopped.
type echoes struct{}

func (echoes) Spec() tool.Spec                  { return tool.Spec{Name: "echo", Effect: tool.Idempotent} }
func (echoes) InputSchema() json.RawMessage     { return json.RawMessage(`{}`) }
func (echoes) CheckInput(json.RawMessage) error { return nil }

func (echoes) Start(context.Context, handle.Start) (handle.Body, error) {
	return &echo{said: make(chan string, 1), stopped: make(chan struct{})}, nil
}

type echo struct {
	said    chan string
	once    sync.Once
	stopped chan struct{}
}

func (e *echo) Next(ctx context.Context) (handle.Update, error) {
	select {
	case s := <-e.said:
		return handle.Update{Content: s}, nil
	case <-e.stopped:
		return handle.Update{}, io.EOF
	case <-ctx.Done():
		return handle.Update{}, context.Cause(ctx)
	}
}

func (e *echo) Input(_ context.Context, in handle.Input) error {
	e.said <- string(in.Value)
	return nil
}

func (e *echo) Stop(time.Duration)            { e.once.Do(func() { close(e.stopped) }) }
func (e *echo) Result() (handle.Ended, error) { return handle.Ended{}, nil }

func echoTool(t *testing.T) tool.Tool {
	t.Helper()
	live, err := handle.Live(echoes{}, nil)
	must(t, err)
	made, err := handle.Stateful(live, nil)
	must(t, err)
	return made
}

// However many handles live idle, their process takes one look a second for all
// of them, and none where it hears all commits, or has no handle.
func TestIdleHandlesCostOneLook(t *testing.T) {
	for kind, wrap := range engineKinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var engine asked
				r := newRig(t, agent.Config{Tools: []tool.Tool{echoTool(t)},
					Model: messages(says("Hi."))},
					&rigOptions{memory: true,
						session: &session.Options{Lease: 3 * time.Hour}, // renewals are not counted
						runner: &runner.Options{Handles: 1000,
							Logger: slog.New(slog.DiscardHandler)},
						wrap: func(kv kvstore.Store) kvstore.Store {
							if engine.Store = kv; wrap == nil {
								return struct {
									kvstore.Store
									ownership
								}{&engine, kv.(kvstore.Exclusive)}
							}
							return &engine
						}})
				r.say("Hello.").finished(event.FinishStop)
				if got := engine.during(time.Minute); got != [3]int64{} {
					t.Errorf("without a handle a minute takes %v gets, scans and commits", got)
				}
				many := testlength.Part(5, 1000)
				for i := range many {
					r.spawned(fmt.Sprintf("h%d", i), "echo", `{}`)
				}
				synctest.Wait()
				want := [3]int64{0, 60, 0}
				if wrap == nil {
					want = [3]int64{}
				}
				if got := engine.during(time.Minute); got != want {
					t.Errorf("of %d handles a minute takes %v gets, scans and commits, not %v",
						many, got, want)
				}
				must(t, r.Close())
				if got := engine.during(time.Minute); got != [3]int64{} {
					t.Errorf("after Close a minute takes %v gets, scans and commits", got)
				}
			})
		})
	}
}

// What another process applies reaches a body at the next look of its process,
// and so does an abort: also where the body never looks for input.
func TestAnotherProcessReachesABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := stateful(t, "deaf", tool.Idempotent,
			func(ctx context.Context, _ target) (tool.Result[string], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		r := newRig(t, agent.Config{Tools: []tool.Tool{echoTool(t), deaf},
			Model: messages(says("Hi."))}, &rigOptions{memory: true, wrap: hidden})
		r.say("Hello.").finished(event.FinishStop)
		r.spawned("a", "echo", `{}`)
		r.spawned("b", "deaf", `{"target":"x"}`)
		synctest.Wait()
		other := r.another()
		for i, text := range []string{`"one"`, `"two"`} {
			_, err := other.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user,
				Value: json.RawMessage(text), Delivery: fmt.Sprint(i)})
			must(t, err)
			r.atALook("the input", func() bool {
				h, err := r.Fetch(t.Context(), chat, "a", user)
				must(t, err)
				return h.Content.Total == 5*(i+1)
			})
		}
		for _, name := range []string{"a", "b"} {
			must(t, other.Abort(t.Context(), chat, name, "grace", ""))
			r.atALook("the abort of "+name, func() bool {
				h, err := r.Fetch(t.Context(), chat, name, user)
				must(t, err)
				return h.State == tool.HandleStopped && h.Actor == "grace"
			})
		}
		r.told(0)
	})
}

// atALook fails the test unless something holds within a second, and not before.
func (r *rig) atALook(what string, holds func() bool) {
	r.t.Helper()
	synctest.Wait()
	if holds() {
		r.t.Errorf("%s came without a look", what)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	if !holds() {
		r.t.Errorf("%s has not come within a second", what)
	}
}
