package notify_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// slow is an outside that takes its time, and sees who sends at once.
type slow struct {
	outside
	t    *testing.T
	busy map[string]bool // by session
}

func (s *slow) Send(ctx context.Context, n notify.Notification) error {
	s.mu.Lock()
	if s.busy[n.Session] {
		s.t.Errorf("two send for %s at once", n.Session)
	}
	s.busy[n.Session] = true
	s.mu.Unlock()
	time.Sleep(time.Duration(rand.IntN(8000)) * time.Millisecond)
	s.mu.Lock()
	s.busy[n.Session] = false
	s.mu.Unlock()
	return s.outside.Send(ctx, n)
}

// Several processes send for the same sessions: one at a time for each, in
// order, and nothing twice where none dies.
func TestOneSenderForEachSession(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const sessions = 12
		for i := range sessions {
			finish, err := last(r.Run(t.Context(), "ada", fmt.Sprint("chat ", i),
				llm.UserText("Refund it."), nil))
			if finish != event.FinishPaused || err != nil {
				t.Fatal(finish, err)
			}
		}
		to := &slow{t: t, busy: map[string]bool{}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for _, store := range []*session.Store{r.store, r.another(), r.another()} {
			all.Go(func() {
				_ = notify.Work(ctx, store, to, &notify.Options{Concurrency: 3})
			})
		}
		all.Wait()
		last := map[string]int{}
		for _, n := range to.all {
			if n.Number != last[n.Session]+1 {
				t.Errorf("%s is sent after number %d", n.ID, last[n.Session])
			}
			last[n.Session] = n.Number
		}
		if len(to.all) != 2*sessions || r.keys("N", "L") != 0 {
			t.Errorf("%d are sent, and %d keys are left", len(to.all), r.keys("N", "L"))
		}
	})
}

// A process dies while it sends. Where leases are stored, another one waits for
// the end of its lease, and sends the same once more.
func TestSenderThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.paused()
		dead, cancel := context.WithCancel(t.Context())
		var first notify.Notification
		died := notify.Func(func(_ context.Context, n notify.Notification) error {
			first = n
			r.faults.Kill()
			cancel()
			return nil
		})
		_ = notify.Work(dead, r.store, died, &notify.Options{Logger: slog.New(slog.DiscardHandler)})
		r.reopen()
		var to outside
		r.work(30*time.Second, &to, nil)
		is(t, to.lines())
		r.work(30*time.Second, &to, nil)
		is(t, to.lines(), "1 paused 1 ", "2 needs_person 1 ")
		if to.all[0].ID != first.ID || first.ID == "" {
			t.Errorf("sent is %q, and then %q", first.ID, to.all[0].ID)
		}
	})
}

// What is cut off in order has not failed, and is sent at once by the next.
func TestWorkThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		hangs := notify.Func(func(ctx context.Context, _ notify.Notification) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r.work(time.Second, hangs, &notify.Options{Tries: 1})
		var to outside
		r.reopen()
		r.work(time.Second, &to, nil)
		is(t, to.lines(), "1 paused 1 ", "2 needs_person 1 ")
	})
}

// A sender that hangs is cut off, and one that panics has failed.
func TestSendersThatMisbehave(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		calls := 0
		to := notify.Func(func(ctx context.Context, n notify.Notification) error {
			calls++
			if n.Number == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			if calls%2 == 0 {
				panic("no")
			}
			var err *fs.PathError // whose methods panic
			return err
		})
		r.work(time.Minute, to, &notify.Options{Tries: 2, Timeout: 2 * time.Second})
		if calls != 4 || r.keys("D") != 2 || r.keys("N") != 0 {
			t.Errorf("%d calls, %d dead letters", calls, r.keys("D"))
		}
		must(t, notify.Drop(t.Context(), r.store, chat, 1))
		if err := notify.Drop(t.Context(), r.store, chat, 1); !errors.Is(err, session.ErrNoDeadLetter) {
			t.Error(err)
		}
	})
}

// What a deleted session has told is sent, and says so, or is dropped. What
// nothing has sent by the time that its tombstone goes, goes with it.
func TestDeletedSessions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		fails := &outside{fail: func(notify.Notification) error { return errors.New("no line") }}
		r.paused()
		r.work(time.Second, fails, &notify.Options{Tries: 1}) // two dead letters
		must(t, r.answer(tool.ReasonApproval))
		_, err := r.carryOn()
		must(t, err)
		must(t, r.Delete(t.Context(), chat, "ada"))
		if r.keys("D") != 0 || r.keys("N") != 1 {
			t.Errorf("%d dead letters, and %d others", r.keys("D"), r.keys("N"))
		}
		r.sound()
		var to outside
		r.work(time.Second, &to, nil)
		is(t, to.lines(), "3 paused 2 ")
		if n := to.all[0]; !n.Deleted || !n.Over || n.Tool != "refund" || n.Text !=
			"A call of refund in session chat-1 waited for an outside job, and that is over "+
				"(the session is deleted by now)" {
			t.Errorf("sent is %+v", n)
		}
	})
}

func TestDeletedSessionsAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		must(t, r.Delete(t.Context(), chat, "ada"))
		var to outside
		r.work(time.Second, &to, &notify.Options{DropDeleted: true})
		is(t, to.lines())
		if n := r.keys("N", "O", "L"); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

func TestTombstonesTakeTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		must(t, r.Delete(t.Context(), chat, "ada"))
		time.Sleep(2 * time.Hour)
		keep := &session.Retention{Receipts: time.Hour, Tombstones: time.Hour}
		_, err := r.store.Sweep(t.Context(), keep)
		must(t, err)
		if n := r.keys("N", "O", "L", "D", "h"); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// What is told costs no commit of the session's more, and an idle session costs
// its senders nothing.
func TestCosts(t *testing.T) {
	for name, shared := range map[string]bool{"one process": false, "shared": true} {
		commits := map[bool]int{}
		for _, tells := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, shared)
				if !tells {
					r.told = nil
					r.reopen()
				}
				before := r.faults.Applies()
				r.paused()
				must(t, r.answer(tool.ReasonApproval))
				_, err := r.carryOn()
				must(t, err)
				must(t, r.answer(tool.ReasonExternal))
				_, err = r.carryOn()
				must(t, err)
				commits[tells] = r.faults.Applies() - before
				if !tells {
					return
				}
				var to outside
				before = r.faults.Applies()
				r.work(time.Second, &to, nil)
				t.Logf("counted, %s: %d commits of a session with %d notifications, and %d to send them",
					name, commits[true], len(to.all), r.faults.Applies()-before)
			})
		}
		if commits[true] != commits[false] {
			t.Errorf("%s: %d commits, and without notifications %d", name, commits[true], commits[false])
		}
	}
}

// looked counts the reads of an engine.
type looked struct {
	kvstore.Exclusive
	reads int
}

func (l *looked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	l.reads++
	return l.Exclusive.Scan(ctx, r)
}

func (l *looked) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	l.reads++
	return l.Exclusive.Get(ctx, key)
}

func TestIdleSessionsCostSendersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		for i := range 50 {
			_, err := last(r.Run(t.Context(), "ada", fmt.Sprint("chat-", i), llm.UserText("Refund it."), nil))
			must(t, err)
		}
		var to outside
		r.work(time.Second, &to, nil)
		kv := &looked{Exclusive: r.engine}
		store := session.NewStore(kv, &session.Options{Notify: r.told})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Millisecond)
		defer cancel()
		_ = notify.Work(ctx, store, &to, nil)
		// One whether it is a copy that isn't finished, and a look a second at each
		// part of the index.
		if kv.reads != 1+60*4 {
			t.Errorf("%d reads in a minute", kv.reads)
		}
	})
}

// A store that tells nothing is an error, and no silence.
func TestStoresThatTellNothing(t *testing.T) {
	store := session.NewStore(kvstore.NewMemory(), nil)
	to := notify.Func(func(context.Context, notify.Notification) error { return nil })
	if err := notify.Work(t.Context(), store, to, nil); !errors.Is(err, notify.ErrTellsNothing) {
		t.Error(err)
	}
	if err := notify.Work(t.Context(), store, nil, nil); err == nil {
		t.Error("it works without a sender")
	}
}
