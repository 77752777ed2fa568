package runner_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// versioned is an engine that keeps what was deleted, as a worker is told.
type versioned struct{ kvstore.Store }

func (versioned) Versioned() {}

// Over an engine that keeps deleted keys, a worker reads its index behind what
// has left it, but for a look at all of it every ten seconds. That one finds
// what was put before: by a commit that was long under way, or by a process
// whose clock is behind.
func TestWorkersReadTheIndexFromItsFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks hooked
		var mu sync.Mutex
		whole, behind := 0, 0 // looks at what is due at once
		hooks.scan = func(r kvstore.Range) {
			atOnce := kvstore.Key("w", "ops", "00008553600000") // before any time
			if bytes.Equal(r.Prefix, kvstore.Key("w", "ops")) && bytes.Equal(r.Before, atOnce) {
				mu.Lock()
				defer mu.Unlock()
				if r.After == nil {
					whole++
				} else {
					behind++
				}
			}
		}
		memory := kvstore.NewMemory()
		kv := versioned{hooks.shared(memory)}
		ag, err := agent.New(agent.Config{Name: "ops", Model: fakellm.New(fakellm.Says("Done."))})
		must(t, err)
		open := func(kv kvstore.Store, now func() time.Time) *runner.Runner {
			rn, err := runner.New(ag, session.NewStore(kv, &session.Options{Now: now}),
				&runner.Options{Logger: slog.New(slog.DiscardHandler)})
			must(t, err)
			return rn
		}
		worker := open(kv, nil)
		slow := open(struct{ kvstore.Store }{memory},
			func() time.Time { return time.Now().Add(-time.Minute) })
		defer worker.Close()
		defer slow.Close()

		ended := make(chan string, 8)
		ctx, stop := context.WithCancel(t.Context())
		var works sync.WaitGroup
		works.Go(func() {
			_ = worker.Work(ctx, &runner.WorkOptions{OnEvent: func(id string, ev event.Event, _ error) {
				if _, ok := ev.(event.End); ok {
					ended <- id
				}
			}})
		})
		send := func(rn *runner.Runner, id string, within time.Duration) {
			t.Helper()
			begun := time.Now()
			_, err := rn.Send(ctx, user, id, llm.UserText("Go."), nil)
			must(t, err)
			if got := <-ended; got != id || time.Since(begun) > within {
				t.Errorf("after %v %q has ended, and not %q within %v", time.Since(begun), got, id, within)
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			send(worker, id, 0)
			time.Sleep(5 * time.Second)
		}
		send(slow, "d", 11*time.Second) // it stands before the front, and nothing wakes the worker
		time.Sleep(time.Minute)
		stop()
		works.Wait()
		mu.Lock()
		defer mu.Unlock()
		if whole < 7 || whole > 9 || behind < 70 {
			t.Errorf("the worker looked at all %d times, and %d times behind the front", whole, behind)
		}
	})
}

// Where an engine can't clear away what has left an index, a look at all of it
// is slow. It then comes more seldom, so that the worker, and the engine, have
// time for what is due.
func TestSlowLooksAreSeldom(t *testing.T) {
	for name, index := range map[string]string{"due": "w", "watched": "v"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const slow, watch = 4 * time.Second, 5 * time.Minute
				var hooks hooked
				var looks atomic.Int64
				hooks.scan = func(r kvstore.Range) {
					if bytes.Equal(r.Prefix, kvstore.Key(index, "ops")) && r.After == nil {
						looks.Add(1)
						time.Sleep(slow)
					}
				}
				kv := versioned{hooks.shared(kvstore.NewMemory())}
				ag, err := agent.New(agent.Config{Name: "ops", Model: fakellm.New()})
				must(t, err)
				rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
				must(t, err)
				defer rn.Close()
				ctx, stop := context.WithTimeout(t.Context(), watch)
				defer stop()
				_ = rn.Work(ctx, nil)
				time.Sleep(slow) // until the engine has answered the last look
				// One part of five of the time, and one look once a minute at least.
				if n := looks.Load(); n < 5 || n > int64(watch/slow/5)+1 {
					t.Errorf("%d looks in %v, of %v each", n, watch, slow)
				}
			})
		})
	}
}

// longTransaction is a store inside a transaction that is committed later.
type longTransaction struct {
	kvstore.Store
	batches []kvstore.Batch
}

func (l *longTransaction) Apply(_ context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	l.batches = append(l.batches, b)
	return 1 << 40, nil
}

// An answer in a transaction that was open for a minute stands before the front.
// It is carried on at once all the same when its commit is told.
func TestAnAnswerInALongTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks hooked
		memory := kvstore.NewMemory()
		asks := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true, Effect: tool.Idempotent},
			func(context.Context, struct{}) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{}), nil
			}))
		ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{asks},
			Model: fakellm.New(fakellm.Calls("ask", `{}`), fakellm.Says("Done."))})
		must(t, err)
		rn, err := runner.New(ag, session.NewStore(versioned{hooks.shared(memory)}, nil),
			&runner.Options{Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		defer rn.Close()
		ended := make(chan event.Finish, 8)
		ctx, stop := context.WithCancel(t.Context())
		var works sync.WaitGroup
		works.Go(func() {
			_ = rn.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
				if end, ok := ev.(event.End); ok {
					ended <- end.Finish
				}
			}})
		})
		_, err = rn.Send(ctx, user, "s", llm.UserText("Go."), nil)
		must(t, err)
		if got := <-ended; got != event.FinishPaused {
			t.Fatalf("it ends as %s", got)
		}
		var pause string
		for p, err := range rn.Pending(ctx, session.PauseFilter{Session: "s"}, user) {
			must(t, err)
			pause = p.ID
		}
		time.Sleep(time.Minute + time.Second) // not when the worker looks at all of it anyway
		tx := &longTransaction{Store: memory}
		_, committed, err := rn.ResumeIn(ctx, tx, "s", runner.Complete(pause, user, []byte(`"yes"`)))
		must(t, err)
		time.Sleep(time.Minute + 3*time.Second)
		for _, b := range tx.batches {
			_, err := memory.Apply(ctx, b)
			must(t, err)
		}
		committed()
		begun := time.Now()
		if got := <-ended; got != event.FinishStop || time.Since(begun) > 100*time.Millisecond {
			t.Errorf("after %v it ends as %s", time.Since(begun), got)
		}
		stop()
		works.Wait()
	})
}

// A look at all of an index may be too slow for the bound of the store's calls.
// What becomes due meanwhile is carried on all the same.
func TestLooksThatAreTooSlowFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooks hooked
		hooks.scan = func(r kvstore.Range) {
			if bytes.Equal(r.Prefix, kvstore.Key("w", "ops")) && r.After == nil {
				time.Sleep(session.DefaultLease)
			}
		}
		kv := versioned{hooks.shared(kvstore.NewMemory())}
		ag, err := agent.New(agent.Config{Name: "ops", Model: fakellm.Echo()})
		must(t, err)
		rn, err := runner.New(ag, session.NewStore(kv, nil),
			&runner.Options{Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		defer rn.Close()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan string, 1)
		var works sync.WaitGroup
		works.Go(func() {
			_ = rn.Work(ctx, &runner.WorkOptions{OnEvent: func(id string, ev event.Event, _ error) {
				if _, ok := ev.(event.End); ok {
					ended <- id
				}
			}})
		})
		time.Sleep(session.DefaultLease / 2) // the first look has failed
		for _, id := range []string{"a", "b"} {
			begun := time.Now()
			_, err = rn.Send(ctx, user, id, llm.UserText("Go."), nil)
			must(t, err)
			if got := <-ended; got != id || time.Since(begun) > time.Second {
				t.Errorf("after %v %q has ended, and not %q", time.Since(begun), got, id)
			}
		}
		stop()
		works.Wait()
		time.Sleep(session.DefaultLease) // until the engine has answered
	})
}
