package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestLayerThatTriesAgainAfterARefusedClaim: the store refuses a claim once. A
// layer calls next again, and that claim is stored. What comes of it counts.
func TestLayerThatTriesAgainAfterARefusedClaim(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(fmt.Sprintf("claimed: %v", effect.NeedsClaim()), func(t *testing.T) {
			var n counter
			again := toolLayer("again",
				func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (exec tool.Execution, err error) {
					for range 3 {
						if exec, err = next(ctx, c); err == nil {
							return exec, nil
						}
					}
					return exec, err
				})
			r := newRig(t, paying(&n, effect, again), nil)
			s := &seen{t: t}
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Pay."), nil) {
				s.err = err
				switch ev := ev.(type) {
				case event.Call:
					if effect.NeedsClaim() {
						r.faults.Add(faultkv.FailAt(r.faults.Applies() + 1))
					}
				case event.End:
					s.end = ev
				}
			}
			s.finished(event.FinishStop)
			if out := r.outputs()[0]; n.get("pay") != 1 || out != string(text("5")) {
				t.Errorf("paid %d times, and the model reads %s", n.get("pay"), out)
			}
		})
	}
}

// impatient is a layer that doesn't wait for next any longer than its context
// lasts.
var impatient = toolLayer("impatient",
	func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		type result struct {
			exec tool.Execution
			err  error
		}
		came := make(chan result, 1)
		go func() {
			exec, err := next(ctx, c)
			came <- result{exec, err}
		}()
		select {
		case r := <-came:
			return r.exec, r.err
		case <-ctx.Done():
			return tool.Execution{}, context.Cause(ctx)
		}
	})

// patient is a layer that always waits for next.
var patient = toolLayer("patient",
	func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		return next(ctx, c)
	})

// TestEndedWhileItIsClaimed: the caller leaves, or the call or its session is
// cancelled, while the call is being claimed, which takes long: its write, or
// the acknowledgement of it. Layers wait for it or don't. The body is not
// entered; the call is as it was, or the model is told that it was not run.
func TestEndedWhileItIsClaimed(t *testing.T) {
	for _, layer := range []interceptor.Layer{impatient, patient} {
		for name, wrap := range engineKinds {
			for _, how := range []string{"left", "cancelled", "session cancelled"} {
				for _, slow := range []string{"write", "acknowledgement"} {
					for _, takes := range []time.Duration{time.Second, time.Minute} {
						if name == "shared" && takes > session.DefaultLease {
							continue // the lease is over by then
						}
						t.Run(fmt.Sprintf("%s, %s, %s, the %s takes %v", layer.Name, name, how,
							slow, takes), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								endedWhileItIsClaimed(t, layer, wrap, how, slow, takes)
							})
						})
					}
				}
			}
		}
	}
}

func endedWhileItIsClaimed(t *testing.T, layer interceptor.Layer,
	wrap func(kvstore.Store) kvstore.Store, how, slow string, takes time.Duration) {
	var n counter
	var disk *faultkv.Injector
	r := newRig(t, paying(&n, tool.Once, layer), &rigOptions{memory: true,
		session: &session.Options{EngineTimeout: time.Hour},
		wrap: func(kv kvstore.Store) kvstore.Store {
			if wrap != nil {
				kv = wrap(kv)
			}
			disk = faultkv.New(kv)
			return disk.Store
		}})
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var next atomic.Bool // the next write is the claim
	var call string
	hook := func(faultkv.Call) {
		if !next.CompareAndSwap(true, false) {
			return
		}
		switch how {
		case "left":
			cancel()
		case "cancelled":
			if _, err := r.Cancel(context.Background(), chat, call, "bob", "enough"); err != nil {
				t.Error(err)
			}
		default:
			go func() {
				if err := r.CancelSession(context.Background(), chat, "bob", "enough"); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(takes)
	}
	if slow == "write" {
		disk.Before(hook)
	} else {
		disk.After(hook)
	}
	for ev := range r.Run(ctx, user, chat, llm.UserText("Pay."), nil) {
		if c, ok := ev.(event.Call); ok {
			call = c.Call.ID
			next.Store(true)
		}
	}
	time.Sleep(2 * takes)
	synctest.Wait()
	if next.Load() || n.get("pay") != 0 {
		t.Fatalf("no claim was made, or paid %d times", n.get("pay"))
	}
	if how == "left" {
		st := must2(r.store.Load(t.Context(), chat))
		if c := st.Call(call); c == nil || c.Status != session.Requested || c.Attempt != 0 {
			t.Errorf("the call is left as %+v", c)
		}
		r.carryOn().finished(event.FinishStop)
	}
	out := string(r.result(call).Output)
	if how == "left" && (n.get("pay") != 1 || out != string(text("5"))) || how != "left" &&
		!strings.Contains(out, "not run") {
		t.Errorf("paid %d times, and the model reads %s", n.get("pay"), out)
	}
}

// A layer doesn't look at its context, and calls next when the call was
// cancelled, or its caller has left. The body isn't entered.
func TestTooLateForTheBody(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Idempotent, tool.Once} {
		for _, how := range []string{"cancelled", "left"} {
			t.Run(string(effect)+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n counter
					entered, release := make(chan struct{}), make(chan struct{})
					slow := toolLayer("slow",
						func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
							close(entered)
							<-release
							return next(ctx, c)
						})
					r := newRig(t, oneCall(instant("charge", effect, &n), slow),
						&rigOptions{memory: true})
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					ended := make(chan *seen, 1)
					go func() {
						ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
					}()
					<-entered
					if how == "left" {
						cancel()
					} else {
						_, err := r.Cancel(context.Background(), chat, r.onlyCall(), "bob", "stop")
						must(t, err)
					}
					<-ended
					close(release)
					synctest.Wait()
					if got := n.get("charge"); got != 0 {
						t.Errorf("the body was entered %d times", got)
					}
				})
			})
		}
	}
}

// Whichever write of a run CancelSession comes before, no body is entered once
// it has returned: also where the write is the claim.
func TestNoBodyIsEnteredAfterItsSessionWasCancelled(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		t.Run(fmt.Sprint("before write ", n), func(t *testing.T) {
			struck = false
			var cancelled atomic.Bool
			act := tool.Must(tool.Func(tool.Spec{Name: "act"},
				func(context.Context, textIn) (tool.Result[textOut], error) {
					if cancelled.Load() {
						t.Error("the body was entered")
					}
					return tool.Done(textOut{"x"}), nil
				}))
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{act}, Concurrency: 1,
				Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`).And("act", `{"text":"b"}`),
					fakellm.Says("Done.")),
			}, &rigOptions{memory: true})
			other := r.another()
			r.atApply(n, func() {
				struck = true
				switch err := other.CancelSession(t.Context(), chat, "bob", "enough"); {
				case errors.Is(err, session.ErrUnknownSession):
				default:
					must(t, err)
					cancelled.Store(true)
				}
			})
			want := event.FinishStop
			if s := r.say("Go."); cancelled.Load() {
				want = event.FinishCancelled
				s.finished(want)
			}
			if got := r.transcript().Finish; got != want {
				t.Errorf("the session ended as %q", got)
			}
			r.acceptable()
		})
	}
}
