package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
)

// contested counts the writes for which another writer was faster, but for
// those of the first keys of tokens, which the first to sign makes.
type contested struct {
	kvstore.Store
	mu        sync.Mutex
	conflicts int
}

func (c *contested) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	r, err := c.Store.Apply(ctx, b)
	if errors.Is(err, kvstore.ErrConflict) && !bytes.HasPrefix(b.Preconditions[0].Key, kvstore.Key("x")) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conflicts++
	}
	return r, err
}

// shareRig has an agent that answers at once, over an engine that processes
// share.
func shareRig(t *testing.T) (*rig, *contested) {
	kv := &contested{}
	r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Done."))}, &rigOptions{memory: true,
		wrap: func(s kvstore.Store) kvstore.Store {
			kv.Store = kvtest.Shared(s)
			return kv
		}})
	return r, kv
}

// working has a runner work until stop, and tells which sessions it has carried on.
func working(t *testing.T, rn *runner.Runner) (ended func() []string, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var ids []string
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = rn.Work(ctx, &runner.WorkOptions{OnEvent: func(id string, ev event.Event, _ error) {
			if _, is := ev.(event.End); is {
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, id)
			}
		}})
	}()
	return func() []string { mu.Lock(); defer mu.Unlock(); return ids }, func() { cancel(); <-over }
}

func (r *rig) sendTo(n int, name string) {
	r.t.Helper()
	for i := range n {
		_, err := r.Send(r.t.Context(), user, fmt.Sprintf("%s-%d", name, i), llm.UserText("Go."), nil)
		must(r.t, err)
	}
}

// Workers of several processes share the sessions out: what becomes due is
// carried on by one of them, and none of the others tries. When one ends, those
// that remain take over at once what it looked after.
func TestWorkersShareSessionsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, kv := shareRig(t)
		var ends [3]func() []string
		var stops [3]func()
		for i, rn := range []*runner.Runner{r.another(), r.another(), r.another()} {
			ends[i], stops[i] = working(t, rn)
		}
		time.Sleep(25 * time.Second) // they know each other
		kv.conflicts = 0
		const many = 60
		r.sendTo(many, "first")
		time.Sleep(1500 * time.Millisecond) // a round, and less than it takes to be lent
		sum := 0
		for i, ended := range ends {
			n := len(ended())
			if sum += n; n == 0 || n == many {
				t.Errorf("worker %d has carried on %d of %d sessions", i, n, many)
			}
		}
		if sum != many || kv.conflicts > 0 {
			t.Errorf("%d of %d sessions were carried on, with %d conflicts", sum, many, kv.conflicts)
		}
		stops[0]()
		time.Sleep(25 * time.Second)
		r.sendTo(many, "second")
		time.Sleep(1500 * time.Millisecond)
		if sum = len(ends[1]()) + len(ends[2]()) + len(ends[0]()); sum != 2*many {
			t.Errorf("after the end of one, %d of %d sessions were carried on", sum, 2*many)
		}
		stops[1]()
		stops[2]()
		must(t, r.Close())
		r.sound()
	})
}

// A worker that has died, or whose agents don't tell of it, keeps nothing from
// being carried on: after a while by another one that has nothing else to do,
// and once it counts as dead, at once. One without the agent has no part.
func TestWorkersTakeWhatADeadOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := shareRig(t)
		for i := range 7 { // of eight workers these have died
			must(t, r.store.NoteWorker(t.Context(), fmt.Sprint("dead ", i), []string{"ops"}))
		}
		must(t, r.store.NoteWorker(t.Context(), "other", []string{"other"}))
		ended, stop := working(t, r.another())
		synctest.Wait()
		const many = 16
		r.sendTo(many, "first")
		time.Sleep(1500 * time.Millisecond)
		if n := len(ended()); n > many/2 {
			t.Errorf("a worker of eight has begun %d of %d sessions at once", n, many)
		}
		time.Sleep(4 * time.Second)
		if n := len(ended()); n != many {
			t.Errorf("%d of %d sessions were carried on after a while", n, many)
		}
		time.Sleep(90 * time.Second)
		left, err := r.store.Workers(t.Context())
		if must(t, err); len(left) != 1 {
			t.Errorf("%d workers are known, of which one lives", len(left))
		}
		r.sendTo(many, "second")
		time.Sleep(1500 * time.Millisecond)
		if n := len(ended()); n != 2*many {
			t.Errorf("%d of %d sessions were carried on at once", n-many, many)
		}
		stop()
		must(t, r.Close())
		r.sound()
	})
}

// What a process whose clock is minutes ahead has made due, before it died, is
// carried on by another one as soon as anything else.
func TestWorkersTakeWhatIsDueByAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := shareRig(t)
		for i := range 7 {
			must(t, r.store.NoteWorker(t.Context(), fmt.Sprint("dead ", i), []string{"ops"}))
		}
		must(t, r.Close())
		r.o.session = &public.Options{Now: func() time.Time { return time.Now().Add(3 * time.Minute) }}
		r.Runner = r.another()
		const many = 16
		r.sendTo(many, "first")
		must(t, r.Close())
		r.o.session = nil
		ended, stop := working(t, r.another())
		time.Sleep(5 * time.Second)
		if n := len(ended()); n != many {
			t.Errorf("%d of %d sessions were carried on", n, many)
		}
		stop()
		r.sound()
	})
}

// The worker of an agent looks after all of its sessions, also if workers of
// other agents share the store.
func TestWorkersOfOtherAgentsHaveNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := shareRig(t)
		for i := range 7 {
			must(t, r.store.NoteWorker(t.Context(), fmt.Sprint("other ", i), []string{"other"}))
		}
		ended, stop := working(t, r.another())
		synctest.Wait()
		r.sendTo(16, "first")
		time.Sleep(1500 * time.Millisecond)
		if n := len(ended()); n != 16 {
			t.Errorf("%d of 16 sessions were carried on at once", n)
		}
		stop()
		must(t, r.Close())
	})
}
