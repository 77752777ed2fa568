package runner_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// What the root itself can't call off is tried for days, too, or is given up. A
// Run that may have children ends as paused beside it.
func TestWhatTheRootOwesOutsideHoldsNoRun(t *testing.T) {
	for name, after := range map[string]time.Duration{"tried again": 0, "given up": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newCallsOff(func(int) error { return errors.New("no answer") })
				job := tool.Must(tool.Func(tool.Spec{Name: "build", MayPause: true,
					Cancel: tool.Cancel{Do: o.do, Tries: 3}},
					func(context.Context, textIn) (tool.Result[textOut], error) {
						return tool.Pending[textOut](tool.Await{Key: "job"}), nil
					}))
				helper := nestedTool(t, "helper", fakellm.New(fakellm.Says("x")))
				r := newRig(t, agent.Config{Tools: []tool.Tool{helper, job, roomTool()},
					Model: fakellm.New(fakellm.Calls("build", `{"text":"x"}`).And("ask", `{}`))},
					&rigOptions{memory: true})
				p := r.say("Go.").finished(event.FinishPaused).pause("build")
				_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "not now")
				must(t, err)
				synctest.Wait()
				time.Sleep(after)
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					if s := watch(t, r.Continue(ctx, chat, "ada")); s.err != nil ||
						s.end.Finish != event.FinishPaused {
						t.Errorf("it ends %q, with %v", s.end.Finish, s.err)
					}
					cancel()
				}
				if owed := r.owed(); len(owed) != 1 || owed[0].GaveUp.IsZero() != (after == 0) {
					t.Errorf("it is owed so: %+v", owed)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// TestWhatCannotBeReadIsNoTry: where what a tool needs to call something off can't
// be read for long, no try has failed, and it is called off soon afterwards.
func TestWhatCannotBeReadIsNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		o := newCallsOff(nil)
		job := tool.Must(tool.Func(tool.Spec{Name: "build", MayPause: true,
			Cancel: tool.Cancel{Do: o.do, Tries: 3}},
			func(context.Context, textIn) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{Key: "job"}), nil
			}))
		large := string(text(strings.Repeat("a", 4<<10)))
		r := newRig(t, agent.Config{Tools: []tool.Tool{job},
			Model: messages(calls("build", large), says("Done."))},
			&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
				h := &hooked{get: func(key []byte) error {
					if away.Load() && bytes.HasPrefix(key, kvstore.Key("p", chat)) {
						return errAway
					}
					return nil
				}}
				return h.exclusive(kv)
			}})
		p := r.say("Go.").finished(event.FinishPaused).pause("build")
		away.Store(true)
		_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "not now")
		must(t, err)
		time.Sleep(time.Hour)
		if owed := r.owed(); len(owed) != 1 || owed[0].Tries != 0 || !owed[0].GaveUp.IsZero() {
			t.Errorf("it is owed so: %+v", owed)
		}
		away.Store(false)
		time.Sleep(2 * time.Minute)
		if owed, all := r.owed(), o.seen(); len(owed) != 0 || len(all) != 1 || all[0].Try != 1 {
			t.Errorf("it is owed so: %+v; called off is %+v", owed, all)
		}
	})
}

// TestRetryBesideATry: an actor has a call's undo tried from the beginning while
// a try is under way, of this process or of another one. That try goes on, and
// another one follows only if it fails, as one of the new tries.
func TestRetryBesideATry(t *testing.T) {
	for name, fails := range map[string]bool{"it comes off": false, "it fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most, all atomic.Int32
				let := make(chan struct{})
				job := tool.Must(tool.Func(tool.Spec{Name: "build", MayPause: true,
					Cancel: tool.Cancel{Timeout: time.Hour, Tries: 1,
						Do: func(context.Context, tool.Cancelled) error {
							most.Store(max(most.Load(), now.Add(1)))
							defer now.Add(-1)
							<-let
							if all.Add(1) == 1 && fails {
								return errors.New("no answer")
							}
							return nil
						}}},
					func(context.Context, textIn) (tool.Result[textOut], error) {
						return tool.Pending[textOut](tool.Await{Key: "job"}), nil
					}))
				r := newRig(t, agent.Config{Tools: []tool.Tool{job},
					Model: messages(calls("build", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true, wrap: hidden})
				p := r.say("Build.").finished(event.FinishPaused).pause("build")
				other := r.another()
				_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
				must(t, err)
				synctest.Wait()
				must(t, other.RetryUndo(t.Context(), chat, p.Call, user))
				must(t, r.RetryUndo(t.Context(), chat, p.Call, user))
				synctest.Wait()
				if n := most.Load(); n != 1 {
					t.Errorf("%d tries are made at once", n)
				}
				close(let)
				synctest.Wait()
				if n, owed := all.Load(), r.owed(); len(owed) != 0 || (n == 2) != fails {
					t.Errorf("after %d tries it is owed so: %+v", n, owed)
				}
				must(t, other.Close())
				must(t, r.Close())
			})
		})
	}
}

// endsInApply is an engine that ends the goroutine of one Apply.
type endsInApply struct {
	kvstore.Store
	in atomic.Int32 // so many from now; 0: of none
}

func (e *endsInApply) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if e.in.Load() > 0 && e.in.Add(-1) == 0 {
		runtime.Goexit()
	}
	return e.Store.Apply(ctx, b)
}

// TestEngineEndsTheGoroutineOfATry: the try was not taken, and is made when the
// session is looked at next.
func TestEngineEndsTheGoroutineOfATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off, engine := newCallsOff(nil), &endsInApply{}
		r := newRig(t, agent.Config{Tools: []tool.Tool{build(off, tool.Once)},
			Model: messages(calls("build", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
				engine.Store = hidden(kv)
				return engine
			}})
		p := r.say("Build.").finished(event.FinishPaused).pause("build")
		engine.in.Store(2) // after the one that cancels, the one that takes the try
		_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
		must(t, err)
		if owed := r.owed(); len(owed) != 1 || len(off.seen()) != 0 {
			t.Fatalf("the goroutine was not ended: it is owed so: %+v", owed)
		}
		r.carryOn().finished(event.FinishStop)
		if owed := r.owed(); len(owed) != 0 || len(off.seen()) != 1 {
			t.Errorf("it is owed so: %+v", owed)
		}
	})
}
