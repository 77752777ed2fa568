package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
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
