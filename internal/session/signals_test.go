package session

import (
	"context"
	"errors"
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
	ahead  time.Duration // of the clocks of processes
	within time.Duration
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

func (n *network) Now() (time.Time, time.Duration) { return time.Now().Add(n.ahead), n.within }

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

// Processes that share an engine with a clock have its time in common, whatever
// their own clocks show. So one that begins knows at once that a lease is over.
// Where the engine's time isn't known well enough, a process takes its own.
func TestTheEnginesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.Close()
		n.ahead = -8 * time.Hour
		now := func() time.Duration { return time.Until(NewStore(n, nil).Now()).Round(time.Second) }
		if got := now(); got != n.ahead {
			t.Errorf("the store's clock is ahead by %v, not %v", got, n.ahead)
		}
		d := goes(t, NewStore(n, nil), "s")
		defer d.Abandon() // its process has died by now
		takes := func() error {
			l, err := NewStore(n, nil).Acquire(t.Context(), "s", &New{User: "ada"})
			if err == nil {
				err = l.Update(t.Context(), touch)
				l.Abandon()
			}
			return err
		}
		n.ahead += DefaultLease + ClockSkew - time.Second
		var busy *BusyError
		if err := takes(); !errors.As(err, &busy) {
			t.Errorf("the lease is over too soon: %v", err)
		}
		n.ahead += time.Second
		if err := takes(); err != nil {
			t.Errorf("the lease isn't over: %v", err)
		}
		n.within = time.Minute
		if got := now(); got != 0 {
			t.Errorf("the store's clock is ahead by %v of the process's, which it must be", got)
		}
	})
}
