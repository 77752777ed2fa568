package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestReconcileWaitsForTheStore: a lost call whose decision can't be read just
// now is not given up; its tool is asked when the store answers again.
func TestReconcileWaitsForTheStore(t *testing.T) {
	var n counter
	var broken atomic.Bool
	entered := make(chan struct{})
	pay := tool.Must(tool.Func(tool.Spec{Name: "pay", Reconcile: func(context.Context, tool.Call) (tool.Execution, error) {
		n.add("asked")
		return tool.Execution{Output: text("paid once")}, nil
	}}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	r := newRig(t, oneCall(pay, interceptor.Approval(nil)), &rigOptions{
		wrap: func(kv kvstore.Store) kvstore.Store { return brokenPayloads{kv.(kvstore.Exclusive), &broken} },
	})
	p := r.say("Pay.").finished(event.FinishPaused).pause("pay")
	res, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "", textIn{strings.Repeat("x", 4<<10)}))
	must(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); watch(t, res.Events(context.Background())) }()
	<-entered
	r.restart()
	<-ended
	broken.Store(true)
	if run := r.carryOn(); run.err == nil || n.get("asked") != 0 {
		t.Errorf("the drive ended with %v; the tool was asked %d times", run.err, n.get("asked"))
	}
	st, err := r.Call(t.Context(), chat, p.Call, user)
	if err == nil && st.Settled != "" {
		t.Errorf("the call was given up: %s", st.Output)
	}
	broken.Store(false)
	r.carryOn().finished(event.FinishStop)
	if out := r.outputs()[0]; n.get("asked") != 1 || out != string(text("paid once")) {
		t.Errorf("the tool was asked %d times; the model reads %s", n.get("asked"), out)
	}
}

// TestReconcileIsAskedThoughTheLeaseWasShort: a lost call's tool can tell. While
// code of its own reads the arguments, most of the lease passes in which the
// store doesn't answer, and it is well again in time. The lease is renewed, and
// the tool is asked; or it isn't in time, and the next drive asks.
func TestReconcileIsAskedThoughTheLeaseWasShort(t *testing.T) {
	const lease = 30 * time.Second
	for name, hangs := range map[string]time.Duration{"in time": 23 * time.Second, "too late": 2 * lease} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				entered, over := make(chan struct{}), make(chan struct{})
				pay := tool.Must(tool.Func(tool.Spec{Name: "pay", Effect: tool.Once, Reconcile: func(context.Context, tool.Call) (tool.Execution, error) {
					n.add("asked")
					return tool.Execution{Output: text("it was paid")}, nil
				}}, func(context.Context, slowIn) (tool.Result[textOut], error) {
					close(entered)
					<-over
					return tool.Done(textOut{"late"}), nil
				}))
				r := newRig(t, oneCall(pay), &rigOptions{memory: true, session: &session.Options{Lease: lease}})
				first, second := faultkv.New(hidden(r.engine)), faultkv.New(hidden(r.engine))
				var runners []*runner.Runner
				for _, kv := range []kvstore.Store{first.Store, second.Store} {
					r.kv = kv
					runners = append(runners, r.another())
				}
				r.kv = r.engine
				a, b := runners[0], runners[1]
				ran := make(chan *seen, 1)
				go func() { ran <- watch(t, a.Run(context.Background(), user, chat, llm.UserText("Pay."), nil)) }()
				<-entered
				first.Kill()
				<-ran
				time.Sleep(2 * lease)
				reading := func() {
					whileReading.Store(nil)
					second.Stall(false)
					time.AfterFunc(hangs, second.Heal)
					time.Sleep(22 * time.Second)
				}
				whileReading.Store(&reading)
				for range 4 { // the first of which sees the lease of the one that is cut off
					watch(t, b.Continue(context.Background(), chat, user))
					time.Sleep(3 * lease)
				}
				if out := r.outputs()[0]; n.get("asked") != 1 || out != string(text("it was paid")) {
					t.Errorf("the tool was asked %d times, and the model reads %s", n.get("asked"), out)
				}
				close(over)
				must(t, a.Close())
				must(t, b.Close())
			})
		})
	}
}

// slowIn is an input whose text is read by code of its own.
type slowIn struct {
	Text slowText `json:"text"`
}

type slowText string

// whileReading is called when a slowText is read.
var whileReading atomic.Pointer[func()]

func (s *slowText) UnmarshalText(b []byte) error {
	if f := whileReading.Load(); f != nil {
		(*f)()
	}
	*s = slowText(b)
	return nil
}

// brokenPayloads is an engine whose payloads can't be read while it is broken.
type brokenPayloads struct {
	kvstore.Exclusive
	broken *atomic.Bool
}

func (b brokenPayloads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if b.broken.Load() && strings.HasPrefix(string(key), "p\x00") {
		return kvstore.Entry{}, errors.New("the disk is busy")
	}
	return b.Exclusive.Get(ctx, key)
}
