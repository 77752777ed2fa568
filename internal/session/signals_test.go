package session

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// network is an engine that processes share, with signals and a clock.
type network struct {
	kvstore.Store
	*kvstore.Signals
	ahead  atomic.Int64 // of the clocks of processes
	within atomic.Int64
	deaf   bool // it loses all signals
}

func newNetwork() *network {
	n := &network{Store: kvstore.NewMemory()}
	n.Signals = kvstore.NewSignals(func(_ context.Context, topics []string) {
		for _, topic := range topics {
			if !n.deaf {
				n.Wake(topic)
			}
		}
	})
	return n
}

func (n *network) Close() error { n.Signals.Close(); return n.Store.Close() }

func (n *network) Now() (time.Time, time.Duration) {
	return time.Now().Add(time.Duration(n.ahead.Load())), time.Duration(n.within.Load())
}

// goes begins a session with a message, and gives its drive, which holds it.
func goes(t *testing.T, s *Store, id string) *Lease {
	t.Helper()
	entry, err := NewEntry(llm.UserText("Go."))
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Acquire(context.Background(), id, &New{User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Update(t.Context(), func(tx *Tx) error { return tx.Say(entry, "", "", false) }); err != nil {
		t.Fatal(err)
	}
	return d
}

// What a process commits reaches those who wait in another one at once: a drive
// whose session was changed, and a worker. If the signal is lost, the drive
// hears of it a second later.
func TestSignalsReachOtherProcesses(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			n.deaf = deaf
			defer n.Close()
			holder, other := NewStore(n, nil), NewStore(n, nil)
			d := goes(t, holder, "s")
			defer d.Abandon()
			heard, stop := holder.Watch("s")
			defer stop()
			defer holder.Listen()()
			work, stopWork := holder.WatchWork()
			defer stopWork()
			defer holder.WatchShards([]int{Shard("due")})()
			synctest.Wait() // it listens
			begun := time.Now()
			if err := other.Update(t.Context(), "s", touch); err != nil {
				t.Fatal(err)
			}
			want := time.Duration(0)
			if deaf {
				want = bellEvery
			}
			if <-heard; time.Since(begun) != want {
				t.Errorf("lost: %v: the drive heard after %v, not %v", deaf, time.Since(begun), want)
			}
			gives := goes(t, other, "due")
			if err := gives.GiveUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if woken := len(work) > 0; woken == deaf {
				t.Errorf("lost: %v: the worker was woken: %v", deaf, woken)
			}
		})
	}
}

// takes tries to take a session over.
func takes(t *testing.T, s *Store, id string) error {
	l, err := s.Acquire(t.Context(), id, &New{User: "ada"})
	if err == nil {
		err = l.Update(t.Context(), touch)
		l.Abandon()
	}
	return err
}

// Processes that share an engine with a clock have its time in common, whatever
// their own clocks show. A process that has seen it run for a lease's length
// knows that a lease is over 5 s after its end. Where the engine's time isn't
// known well enough, a process takes its own.
func TestTheEnginesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.Close()
		const ahead = -8 * time.Hour
		n.ahead.Store(int64(ahead))
		now := func() time.Duration { return time.Until(NewStore(n, nil).Now()).Round(time.Second) }
		if got := now(); got != ahead {
			t.Errorf("the store's clock is ahead by %v, not %v", got, ahead)
		}
		watches := NewStore(n, nil)
		d := goes(t, NewStore(n, nil), "s")
		d.Abandon() // its process dies
		time.Sleep(DefaultLease + ClockSkew - time.Second)
		var busy *BusyError
		if err := takes(t, watches, "s"); !errors.As(err, &busy) {
			t.Errorf("the lease is over too soon: %v", err)
		}
		time.Sleep(time.Second)
		if err := takes(t, NewStore(n, nil), "s"); !errors.As(err, &busy) {
			t.Errorf("a process believes a clock that it hasn't seen run: %v", err)
		}
		if err := takes(t, watches, "s"); err != nil {
			t.Errorf("the lease isn't over: %v", err)
		}
		n.within.Store(int64(time.Minute))
		if got := now(); got != 0 {
			t.Errorf("the store's clock is ahead by %v of the process's, which it must be", got)
		}
	})
}

// However the engine's clock is set, and however long it isn't known, no drive
// that lives loses its session, neither to a process that saw it happen nor to
// one that began after it. When the drive dies, both follow in time.
func TestTheEnginesClockIsSet(t *testing.T) {
	for _, set := range []time.Duration{6 * time.Second, time.Minute, 8 * time.Hour, -time.Minute} {
		for _, unknown := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				defer n.Close()
				if unknown { // and this process's clock is not the engine's
					n.ahead.Store(int64(-set))
				}
				saw := NewStore(n, nil)
				d := goes(t, NewStore(n, nil), "s")
				defer d.Abandon()
				time.Sleep(3 * DefaultLease / 10)
				change := func() {
					if unknown {
						n.within.Store(int64(time.Minute) - n.within.Load())
					} else {
						n.ahead.Add(int64(set))
					}
				}
				change()
				var busy *BusyError
				for i := range 16 { // while the drive renews its lease
					if i == 8 {
						change()
					}
					for _, s := range []*Store{saw, NewStore(n, nil)} {
						if err := takes(t, s, "s"); !errors.As(err, &busy) {
							t.Fatalf("set by %v, unknown %v: after %d looks: %v", set, unknown, i, err)
						}
					}
					time.Sleep(DefaultLease / 6)
				}
				if err := d.Update(t.Context(), touch); err != nil {
					t.Errorf("set by %v, unknown %v: the drive: %v", set, unknown, err)
				}
				d.Abandon()
				began := NewStore(n, nil)
				_, _ = takes(t, saw, "s"), takes(t, began, "s")
				time.Sleep(DefaultLease + DefaultLease/drift)
				if err := takes(t, began, "s"); err != nil {
					t.Errorf("set by %v, unknown %v: a dead drive's: %v", set, unknown, err)
				}
			})
		}
	}
}

// What a process does to wait handles of wider scopes reaches those who follow
// their scope in another one, and the workers there that wait for what is due.
func TestSignalsOfWaitsReachOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.Close()
		one, other := NewStore(n, nil), NewStore(n, nil)
		defer one.Listen()()
		scope, stop := one.WatchWaits("store")
		defer stop()
		elsewhere, stop := one.WatchWaits("user:ada")
		defer stop()
		due, stop := one.WatchDueWaits()
		defer stop()
		for _, changesDue := range []bool{false, true} {
			other.SignalWaits("store", changesDue)
			synctest.Wait()
			if len(scope) != 1 || len(elsewhere) != 0 || len(due) == 1 != changesDue {
				t.Errorf("%v: %d signals of the scope, %d of another one, %d of what is due", changesDue,
					len(scope), len(elsewhere), len(due))
			}
			<-scope
		}
	})
}
