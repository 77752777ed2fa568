package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// outage is a rig in whose store a body finds the disk full when it returns.
type outage struct {
	*rig
	n    counter
	disk *faultkv.Injector
}

// outages runs f in a bubble for each kind of engine and each effect. The body
// ends with what then returns, and from then on the disk is full for so long.
func outages(t *testing.T, lasts time.Duration, f func(t *testing.T, o *outage, effect tool.Effect),
	then func(in textIn) (tool.Result[textOut], error),
) {
	for kind, wrap := range engineKinds {
		for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
			t.Run(fmt.Sprint(kind, ", ", effect), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &outage{}
					act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: effect, MayPause: true},
						func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
							if o.n.add("act") == 1 {
								o.disk.Add(faultkv.FullFrom(o.disk.Applies() + 1))
								time.AfterFunc(lasts, o.disk.Heal)
							}
							return then(in)
						}))
					beside := tool.Must(tool.Func(tool.Spec{Name: "beside", Effect: effect},
						func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
							o.n.add("beside")
							select {
							case <-ctx.Done():
								return nil, context.Cause(ctx)
							case <-time.After(20 * time.Second):
							}
							return tool.Done(textOut(in)), nil
						}))
					o.rig = newRig(t, agent.Config{Tools: []tool.Tool{act, beside},
						Model: fakellm.New(fakellm.Calls("beside", `{"text":"b"}`).And("act",
							`{"text":"a"}`), fakellm.Says("Done.")),
					}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
						if wrap != nil {
							kv = wrap(kv)
						}
						o.disk = faultkv.New(kv)
						return o.disk.Store
					}, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
					f(t, o, effect)
				})
			})
		}
	}
}

// itsInput is what a body of outages ends with: a result.
func itsInput(in textIn) (tool.Result[textOut], error) { return tool.Done(textOut(in)), nil }

// endsTheRun has a run end with the store's error, after some seconds.
func (o *outage) endsTheRun(t *testing.T) {
	t.Helper()
	began := time.Now()
	s := o.say("Go.")
	if took := time.Since(began); !errors.Is(s.err, faultkv.ErrFull) || took > 10*time.Second {
		t.Fatalf("after %v the run ended with %v", took, s.err)
	}
}

// passes waits until it is over, and what waited for that is stored.
func (o *outage) passes() {
	time.Sleep(30 * time.Second)
	synctest.Wait()
}

// known fails the test unless both bodies were entered once, and what they came
// to is what the model reads.
func (o *outage) known(t *testing.T) {
	t.Helper()
	got := strings.Join(o.outputs(), " ")
	if want := `{"text":"b"} {"text":"a"}`; got != want || o.n.get("act") != 1 ||
		o.n.get("beside") != 1 {
		t.Errorf("the results are %s, and the bodies were entered %v", got, o.n.n)
	}
	o.acceptable()
}

// TestOutcomeWaitsForTheStore: a body has returned, and the store can't take
// that for three seconds. The run goes on as if it had.
func TestOutcomeWaitsForTheStore(t *testing.T) {
	outages(t, 3*time.Second, func(t *testing.T, o *outage, _ tool.Effect) {
		o.say("Go.").finished(event.FinishStop)
		o.known(t)
	}, itsInput)
}

// TestOutcomeWaitsLongForTheStore: after some seconds the run ends with the
// store's error, and nothing tells the other bodies to end. What both come to
// is stored once the store can take it, while the lease lasts.
func TestOutcomeWaitsLongForTheStore(t *testing.T) {
	outages(t, 25*time.Second, func(t *testing.T, o *outage, _ tool.Effect) {
		o.endsTheRun(t)
		o.passes()
		o.carryOn().finished(event.FinishStop)
		o.known(t)
	}, itsInput)
}

// A pause, and a failure, are kept as a result is.
func TestPauseWaitsForTheStore(t *testing.T) {
	outages(t, 8*time.Second, func(t *testing.T, o *outage, _ tool.Effect) {
		o.endsTheRun(t)
		o.passes()
		p := o.carryOn().finished(event.FinishPaused).pause("act")
		o.answer(runner.Complete(p.ID, "ci", text("a"))).finished(event.FinishStop)
		o.known(t)
	}, func(textIn) (tool.Result[textOut], error) {
		return tool.Pending[textOut](tool.Await{}), nil
	})
}

func TestFailureWaitsForTheStore(t *testing.T) {
	outages(t, 8*time.Second, func(t *testing.T, o *outage, _ tool.Effect) {
		o.endsTheRun(t)
		o.passes()
		o.carryOn().finished(event.FinishStop)
		if got := o.outputs(); !strings.Contains(got[1], "no funds") || o.n.get("act") != 1 {
			t.Errorf("the results are %q, and the bodies were entered %v", got, o.n.n)
		}
	}, func(textIn) (tool.Result[textOut], error) {
		return nil, errors.New("no funds")
	})
}

// TestOutcomeOutlivesNoLease: where leases end, another process may have the
// session by then. What a body of effect once came to is unknown, and it isn't
// entered again.
func TestOutcomeOutlivesNoLease(t *testing.T) {
	outages(t, time.Minute, func(t *testing.T, o *outage, effect tool.Effect) {
		o.endsTheRun(t)
		time.Sleep(2 * time.Minute)
		if !o.store.Exclusive() { // from its first look on it waits for a sign of the drive
			if s := o.carryOn(); !errors.Is(s.err, session.ErrBusy) {
				t.Fatalf("the first look brings %v", s.err)
			}
			time.Sleep(time.Minute)
		}
		o.carryOn().finished(event.FinishStop)
		switch got := o.outputs(); {
		case o.store.Exclusive():
			o.known(t)
		case effect == tool.Once:
			if !strings.Contains(got[1], "unknown") || o.n.get("act") != 1 {
				t.Errorf("the results are %q, and the bodies were entered %v", got, o.n.n)
			}
		case got[1] != `{"text":"a"}`:
			t.Errorf("the results are %q", got)
		}
	}, itsInput)
}

// TestCloseInAnOutage: Close takes no longer than it may, and leaves nothing.
func TestCloseInAnOutage(t *testing.T) {
	outages(t, time.Hour, func(t *testing.T, o *outage, _ tool.Effect) {
		o.endsTheRun(t)
		began := time.Now()
		if err := o.Close(); err == nil {
			t.Error("Close says that all has ended")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
	}, itsInput)
}

// TestCancellationIsSeenAfterAnOutage: the read that would have told a drive of
// a cancellation fails. The body runs on, and the drive reads again.
func TestCancellationIsSeenAfterAnOutage(t *testing.T) {
	for kind := range engineKinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(hooked)
				wrap := h.exclusive
				if kind == "shared" {
					wrap = h.shared
				}
				entered := make(chan string, 1)
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{starting(tool.Once, new(counter),
						func(ctx context.Context, c tool.Call) (tool.Result[textOut], error) {
							entered <- c.ID
							<-ctx.Done()
							return nil, context.Cause(ctx)
						})},
					Model: messages(calls("deploy", `{"text":"job"}`), says("Done.")),
				}, &rigOptions{memory: true, wrap: wrap,
					runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
				ended := make(chan error, 1)
				go func() {
					var last error
					for _, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						last = err
					}
					ended <- last
				}()
				call := <-entered
				synctest.Wait()
				fails := 0
				h.get = func(key []byte) error {
					// The cancellation reads the head itself, once.
					if string(key) == string(kvstore.Key("h", chat)) {
						if fails++; fails == 2 || fails == 3 {
							return errors.New("the server restarts")
						}
					}
					return nil
				}
				_, err := r.Cancel(t.Context(), chat, call, "ada", "too slow")
				must(t, err)
				began := time.Now()
				must(t, <-ended)
				if took := time.Since(began); fails < 3 || took > 5*time.Second {
					t.Errorf("after %v and %d reads the run has ended", took, fails)
				}
			})
		})
	}
}

// slowToFail is an engine that, while it is away, answers a write only once the
// test lets it, and then by an error.
type slowToFail struct {
	kvstore.Store
	away atomic.Bool
	let  chan struct{}
}

func (e *slowToFail) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if e.away.Load() {
		<-e.let
		return 0, errAway
	}
	return e.Store.Apply(ctx, b)
}

// TestOutcomeWaitsForTheStoreThoughItsCallerHasLeft: the caller leaves while the
// store is at the outcome, which then fails. The outcome is stored all the same.
func TestOutcomeWaitsForTheStoreThoughItsCallerHasLeft(t *testing.T) {
	for kind, wrap := range engineKinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &slowToFail{let: make(chan struct{})}
				var n counter
				r := newRig(t, oneCall(does(tool.Spec{Name: "act"},
					func(context.Context, string) (tool.Result[textOut], error) {
						n.add("act")
						time.Sleep(time.Second) // by then the loop waits, and commits the outcome itself
						e.away.Store(true)
						return tool.Done(textOut{"a"}), nil
					})), &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					if wrap != nil {
						kv = wrap(kv)
					}
					e.Store = kv
					if own, ok := kv.(kvstore.Exclusive); ok {
						return struct {
							kvstore.Store
							ownership
						}{e, own}
					}
					return e
				}, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
				ctx, leave := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
					}
				}()
				time.Sleep(2 * time.Second)
				leave()
				<-ended
				time.Sleep(time.Second)
				close(e.let)
				time.Sleep(3 * time.Second)
				e.away.Store(false)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				r.carryOn().finished(event.FinishStop)
				if got := r.outputs(); got[0] != string(text("a")) || n.get("act") != 1 {
					t.Errorf("the result is %s, and the body was entered %d times", got, n.get("act"))
				}
			})
		})
	}
}

// doubtful is an engine that answers some writes by ErrUncertain. The first of
// them is applied when the last one is answered.
type doubtful struct {
	kvstore.Store
	mu     sync.Mutex
	left   int
	first  *kvstore.Batch
	landed chan struct{}
}

func (e *doubtful) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left == 0 {
		return e.Store.Apply(ctx, b)
	}
	if e.first == nil {
		e.first = copied(b)
	}
	if e.left--; e.left == 0 {
		if _, err := e.Store.Apply(ctx, *e.first); err != nil {
			return 0, err
		}
		close(e.landed)
	}
	return 0, kvstore.ErrUncertain
}

// TestPauseThatWasStoredAfterAll: a pause is tried again since nothing told that
// it is stored, and is answered meanwhile. The call doesn't pause once more.
func TestPauseThatWasStoredAfterAll(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &doubtful{landed: make(chan struct{})}
				var n counter
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{starting(effect, &n,
						func(context.Context, tool.Call) (tool.Result[textOut], error) {
							e.mu.Lock()
							e.left = 4 // so many tries has a commit in doubt
							e.mu.Unlock()
							return tool.Pending[textOut](tool.Await{}), nil
						})},
					Model: messages(calls("deploy", `{"text":"job"}`), says("Done.")),
				}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					e.Store = kv
					return e
				}, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
				go func() {
					<-e.landed
					p := r.transcript().Pending[0]
					_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v1")))
					must(t, err)
				}()
				r.say("Go.").finished(event.FinishStop)
				if got := r.outputs(); got[0] != string(text("v1")) || n.get("deploy") != 1 {
					t.Errorf("the result is %s, and the body was entered %d times", got, n.get("deploy"))
				}
				r.acceptable()
			})
		})
	}
}
