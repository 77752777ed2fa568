package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
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

// A worker finds a session due that another process has driven to its pause
// since, and there is nothing to do. Then, before one of the worker's reads of
// the head, the answer comes. The worker goes on, and shows what it does: the
// end, too.
func TestAWorkerShowsTheEndOfWhatCameAsItGaveUp(t *testing.T) {
	t.Parallel()
	for at := 1; at <= idleReads; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			answeredBeforeRead(t, at)
		})
	}
}

// idleReads is how often a drive reads the head, at the least, that finds nothing
// to do.
const idleReads = 2

func answeredBeforeRead(t *testing.T, at int) {
	ctx := t.Context()
	job := tool.Must(tool.Func(tool.Spec{Name: "job", Description: "Starts a job.", MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		}))
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{job},
		Model: fakellm.New(fakellm.Calls("job", `{}`), fakellm.Says("Done."))})
	if err != nil {
		t.Fatal(err)
	}
	memory := kvstore.NewMemory()
	open := func(kv kvstore.Store) *runner.Runner {
		rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rn.Close() })
		return rn
	}
	other := open(struct{ kvstore.Store }{memory})
	if _, err := other.Send(ctx, "ada", "s", llm.UserText("Go."), nil); err != nil {
		t.Fatal(err)
	}

	var found sync.Once
	reads := 0 // of the head, by the worker
	var pause string
	var hooks hooked
	kv := hooks.shared(memory)
	hooks.scanned = func(r kvstore.Range) {
		if !bytes.Equal(r.Prefix, kvstore.Key("w", "ops")) {
			return
		}
		found.Do(func() {
			for ev, err := range other.Continue(ctx, "s", "") {
				if err != nil {
					t.Error(err)
				}
				if end, ok := ev.(event.End); ok && end.Finish == event.FinishPaused {
					pause = end.Pending[0].ID
				}
			}
		})
	}
	hooks.get = func(key []byte) error {
		if pause == "" || !isHead(key) {
			return nil
		}
		if reads++; reads == at {
			_, err := other.Resume(ctx, "s", runner.Complete(pause, "ci", []byte(`"passed"`)))
			return err
		}
		return nil
	}
	worker := open(kv)
	within, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var ends []event.Finish
	_ = worker.Work(within, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, err error) {
		if end, ok := ev.(event.End); ok {
			ends = append(ends, end.Finish)
			stop()
		}
	}})
	if !slices.Equal(ends, []event.Finish{event.FinishStop}) {
		t.Errorf("the worker has shown the ends %q", ends)
	}
}
