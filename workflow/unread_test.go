package workflow_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/workflow"
)

var errUnread = errors.New("the store can't be read just now")

// unread is a store of which one read fails.
type unread struct {
	kvstore.Store
	at    atomic.Int64 // the one that fails, of all that there were; zero: none
	reads atomic.Int64
	// Newer: reads are those of the steps' sessions alone, and the one that fails
	// is as a newer program would have written it.
	newer bool
}

func (u *unread) fails() bool { return u.reads.Add(1) == u.at.Load() }

func (u *unread) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if u.newer {
		e, err := u.Store.Get(ctx, key)
		isStep := bytes.HasPrefix(key, kvstore.Key("h")) && !bytes.Equal(key, kvstore.Key("h", here))
		if err == nil && isStep && u.fails() {
			e.Value = bytes.Replace(e.Value, []byte(`{"v":`), []byte(`{"v":9`), 1)
		}
		return e, err
	}
	if u.fails() {
		return kvstore.Entry{}, errUnread
	}
	return u.Store.Get(ctx, key)
}

func (u *unread) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if !u.newer && u.fails() {
		return kvstore.Page{}, errUnread
	}
	return u.Store.Scan(ctx, r)
}

// A store that can't be read for a moment ends no workflow, and keeps no step
// from being ended, whichever read it is that fails.
func TestReadsThatFailEndNoWorkflow(t *testing.T) { readsThatFail(t, false) }

// Nor does a step's session that a newer program has written, while an older one
// drives the workflow.
func TestStepsOfANewerVersionEndNoWorkflow(t *testing.T) { readsThatFail(t, true) }

func readsThatFail(t *testing.T, newer bool) {
	t.Helper()
	done := build(t, workflow.New("done").
		Step("a", echo("echo"), args{"text": "hello"}, nil).
		Step("b", echo("again"), args{"text": workflow.From("a", "/text")}, nil).
		Output(workflow.From("b", "/text")))
	fails := build(t, workflow.New("fails").
		Step("waits", asks("ask"), args{"text": "?"}, nil).
		Step("breaks", bad("bad"), nil, nil))
	for _, c := range []struct {
		w    *workflow.Workflow
		want event.Finish
		says string
	}{{done, event.FinishStop, "hello"}, {fails, event.FinishFailed, "the machine is broken"}} {
		for n, reads := int64(1), int64(0); reads == 0 || n <= reads; n += int64(testlength.Step(3)) {
			synctest.Test(t, func(t *testing.T) {
				u := &unread{Store: kvstore.NewMemory(), newer: newer}
				u.at.Store(n)
				r := &rig{t: t, engine: u}
				r.open(c.w.Agent())
				got := r.worked(c.w)
				reads = u.reads.Load()
				u.at.Store(0)
				said := got.Why
				if c.want == event.FinishStop {
					said = got.History[len(got.History)-1].Text()
				} else if h := r.step("waits"); h.Status != "cancelled" {
					t.Errorf("%s, read %d: what waited is %+v", c.w.List().Name, n, h)
				}
				if got.Finish != c.want || !strings.Contains(said, c.says) {
					t.Errorf("%s, read %d: %s %s: %s", c.w.List().Name, n, got.Finish, got.Why, said)
				}
				must(t, r.Close())
			})
		}
	}
}

// worked has a worker carry a workflow on until it is over.
func (r *rig) worked(w *workflow.Workflow) (got runner.Transcript) {
	m, err := w.Message(nil)
	must(r.t, err)
	once := &runner.SendOptions{MessageID: "1"}
	if _, err = r.Send(r.t.Context(), ada, here, m, once); err != nil {
		_, err = r.Send(r.t.Context(), ada, here, m, once)
	}
	must(r.t, err)
	ctx, stop := context.WithCancel(r.t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = r.Work(ctx, nil) })
	for range 100 {
		time.Sleep(time.Second)
		if got, err = r.Show(ctx, here, ada); err == nil && got.Finish != "" &&
			got.Finish != event.FinishPaused {
			break
		}
	}
	stop()
	work.Wait()
	must(r.t, err)
	return got
}
