package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// paying is an agent whose model pays once, and which counts that under "pay".
func paying(n *counter, effect tool.Effect, layers ...interceptor.Layer) agent.Config {
	return agent.Config{
		Name: "ops", Tools: []tool.Tool{instant("pay", effect, n)}, Interceptors: layers,
		Model: fakellm.New(fakellm.Calls("pay", `{"text":"5"}`), fakellm.Says("Paid.")),
	}
}

// TestNoBodyAfterItsContext: a caller leaves while its call is being claimed:
// before the store has the claim, and after it. The body is not entered, not
// later either, and the call is as it was: Continue runs it.
func TestNoBodyAfterItsContext(t *testing.T) {
	for _, where := range []string{"exclusive", "shared"} {
		for _, layered := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				// the store takes as long for its answer
				for _, late := range []time.Duration{0, time.Second} {
					t.Run(fmt.Sprintf("%s, layers %v, after %v, late %v", where, layered,
						after, late), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							leavesWhileClaiming(t, where, layered, after, late)
						})
					})
				}
			}
		}
	}
}

func leavesWhileClaiming(t *testing.T, where string, layered, after bool, late time.Duration) {
	var n counter
	var layers []interceptor.Layer
	if layered {
		layers = append(layers, passes)
	}
	var disk *faultkv.Injector
	r := newRig(t, paying(&n, tool.Once, layers...), &rigOptions{memory: true,
		wrap: func(kv kvstore.Store) kvstore.Store {
			if where == "shared" {
				kv = hidden(kv)
			}
			disk = faultkv.New(kv)
			return disk.Store
		}})
	ctx, cancel := context.WithCancel(t.Context())
	var claim atomic.Int32
	var left time.Time
	hook := func(faultkv.Call) {
		if claim.CompareAndSwap(1, 2) {
			left = time.Now()
			cancel()
			time.Sleep(late)
		}
	}
	if after {
		disk.After(hook)
	} else {
		disk.Before(hook)
	}
	for ev := range r.Run(ctx, user, chat, llm.UserText("Pay."), nil) {
		if _, ok := ev.(event.Call); ok {
			claim.Store(1) // the next write
		}
	}
	back := time.Now()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if took := back.Sub(left); took > 100*time.Millisecond {
		t.Errorf("Run was back after %v", took)
	}
	if claim.Load() != 2 || n.get("pay") != 0 {
		t.Fatalf("the claim was at %d, and %d payments made", claim.Load(), n.get("pay"))
	}
	r.carryOn().finished(event.FinishStop)
	if n.get("pay") != 1 || string(r.result(r.asked("pay")).Output) != string(text("5")) {
		t.Errorf("paid %d times, and the model is told %s", n.get("pay"),
			r.result(r.asked("pay")).Output)
	}
	r.acceptable()
}

// asked is the id of the only call of a tool.
func (r *rig) asked(name string) string {
	r.t.Helper()
	for _, m := range r.transcript().History {
		for _, c := range m.ToolCalls() {
			if c.Name == name {
				return c.ID
			}
		}
	}
	r.t.Fatalf("no call of %s", name)
	return ""
}

// TestNoBodyAfterItsCall: a call is cancelled when its claim is stored, before
// the driver knows. Its body is not entered, and the model is told that it was
// not run.
func TestNoBodyAfterItsCall(t *testing.T) {
	for _, layered := range []bool{false, true} {
		for what, cancel := range map[string]func(rn *runner.Runner, call string) error{
			"the call": func(rn *runner.Runner, call string) error {
				_, err := rn.Cancel(context.Background(), chat, call, "bob", "enough")
				return err
			},
			"the session": func(rn *runner.Runner, _ string) error {
				return rn.CancelSession(context.Background(), chat, "bob", "enough")
			},
		} {
			t.Run(fmt.Sprintf("%s, layers %v", what, layered), func(t *testing.T) {
				var n counter
				var layers []interceptor.Layer
				if layered {
					layers = append(layers, passes)
				}
				var disk *faultkv.Injector
				r := newRig(t, paying(&n, tool.Once, layers...), &rigOptions{memory: true,
					wrap: func(kv kvstore.Store) kvstore.Store {
						disk = faultkv.New(kv)
						return disk.Store
					}})
				var call atomic.Value
				var claim atomic.Int32
				disk.After(func(faultkv.Call) {
					if claim.CompareAndSwap(1, 2) {
						if err := cancel(r.Runner, call.Load().(string)); err != nil {
							t.Error(err)
						}
					}
				})
				s := &seen{t: t}
				for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Pay."), nil) {
					s.err = errors.Join(s.err, err)
					s.events = append(s.events, ev)
					if c, ok := ev.(event.Call); ok {
						call.Store(c.Call.ID)
						claim.Store(1)
					}
				}
				res := of[event.Result](s)
				if n.get("pay") != 0 || len(res) != 1 || res[0].Status != event.Cancelled ||
					res[0].Actor != "bob" {
					t.Fatalf("paid %d times, and shown %+v, %v", n.get("pay"), res, s.err)
				}
				if got := string(res[0].Result.Output); got != `"Cancelled: the run was ended: enough. The tool was not run."` &&
					got != `"Cancelled: enough. The tool was not run."` {
					t.Errorf("the model is told %s", got)
				}
			})
		}
	}
}

// TestNoBodyAfterItsLease: a driver's store is as good as gone, from when its
// claim is stored until long after its lease is over. Another driver has taken
// over and asked the tool, which was never entered, and so pays. The first one,
// acknowledged at last, doesn't; and its Run doesn't wait for that. The same
// where a call needs no claim, and the wait is a layer's.
func TestNoBodyAfterItsLease(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		for _, layered := range []bool{false, true} {
			for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
				t.Run(fmt.Sprintf("deaf %v, layers %v, %s", deaf, layered, effect),
					func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { paysOnce(t, deaf, layered, effect) })
					})
			}
		}
	}
}

func paysOnce(t *testing.T, deaf, layered bool, effect tool.Effect) {
	const lease = 300 * time.Millisecond
	var n counter
	pay := tool.Must(tool.Func(tool.Spec{Name: "pay", Effect: effect,
		Reconcile: func(context.Context, tool.Call) (tool.Execution, error) {
			if n.add("pay") != 1 {
				t.Error("it was paid before")
			}
			return tool.Execution{Output: text("paid now")}, nil
		}}, func(_ context.Context, in textIn) (tool.Result[textOut], error) {
		n.add("pay")
		return tool.Done(textOut(in)), nil
	}))
	var slow *faultkv.Injector
	over, stalled := make(chan struct{}), make(chan struct{})
	stall := sync.OnceFunc(func() {
		slow.Stall(deaf)
		close(stalled)
	})
	var first atomic.Bool // the first driver's layer is still to come
	first.Store(true)
	brake := interceptor.Layer{Name: "brake",
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				if first.CompareAndSwap(true, false) && effect != tool.Once {
					stall()
					<-over // it ignores its context
					ctx = context.WithoutCancel(ctx)
				}
				return next(ctx, c)
			}
		}}
	config := agent.Config{Name: "ops", Tools: []tool.Tool{pay},
		Model: messages(calls("pay", `{"text":"5"}`), says("Paid."))}
	if layered || effect != tool.Once {
		config.Interceptors = interceptor.Chain{brake}
	}
	r := newRig(t, config, &rigOptions{memory: true, session: &session.Options{Lease: lease}})
	wrapped := hidden(r.engine)
	slow = faultkv.New(wrapped)
	ag, err := agent.New(r.config)
	must(t, err)
	options := &session.Options{Lease: lease}
	a := must2(runner.New(ag, public.NewStore(slow.Store, options), r.o.runner))
	b := must2(runner.New(ag, public.NewStore(wrapped, options), r.o.runner))
	var claiming atomic.Bool
	slow.After(func(faultkv.Call) {
		if effect == tool.Once && claiming.CompareAndSwap(true, false) {
			stall()
			<-over
		}
	})
	ran := make(chan *seen, 1)
	start := time.Now()
	go func() {
		s := &seen{t: t}
		for ev, err := range a.Run(context.Background(), user, chat, llm.UserText("Pay."), nil) {
			s.err = errors.Join(s.err, err)
			if end, ok := ev.(event.End); ok {
				s.end = end
			}
			if _, ok := ev.(event.Call); ok {
				claiming.Store(true)
			}
		}
		s.finished(event.FinishElsewhere)
		if took := time.Since(start); took > lease+100*time.Millisecond {
			t.Errorf("Run of the drive that lost its lease took %v", took)
		}
		ran <- s
	}()
	<-stalled
	if err := watch(t, b.Continue(context.Background(),
		chat, user)).err; !errors.Is(err, session.ErrBusy) {
		t.Errorf("while the lease lasts, the other driver gets %v", err)
	}
	time.Sleep(lease + 50*time.Millisecond)
	watch(t, b.Continue(context.Background(), chat, user)).finished(event.FinishStop)
	time.Sleep(lease)
	slow.Heal()
	close(over)
	<-ran
	synctest.Wait()
	if n.get("pay") != 1 {
		t.Errorf("paid %d times", n.get("pay"))
	}
	must(t, a.Close())
	must(t, b.Close())
}
