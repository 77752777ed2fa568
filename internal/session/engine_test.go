package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
)

// shared returns an engine that doesn't tell that one process holds it.
func shared(kv kvstore.Store) kvstore.Store { return struct{ kvstore.Store }{kv} }

// TestEngineCallsAreBounded: an engine that doesn't answer, whether or not it
// obeys contexts, keeps no caller longer than its bound: a third of the lease,
// or what the options say; nor longer than the caller waits. A write may have
// been applied, and a read may be tried again.
func TestEngineCallsAreBounded(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		for name, test := range map[string]struct {
			wrap  func(kvstore.Store) kvstore.Store
			o     session.Options
			bound time.Duration
		}{
			"shared":               {shared, session.Options{Lease: time.Minute}, 20 * time.Second},
			"exclusive":            {nil, session.Options{Lease: time.Minute}, session.DefaultEngineTimeout},
			"exclusive, an option": {nil, session.Options{EngineTimeout: time.Second}, time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var kv kvstore.Store = kvstore.NewMemory()
					if test.wrap != nil {
						kv = test.wrap(kv)
					}
					disk := faultkv.New(kv)
					s := session.NewStore(disk.Store, &test.o)
					d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
					must(t, err)
					must(t, d.Update(t.Context()))
					must(t, d.GiveUp(t.Context()))
					stop := func(tx *session.Tx) error {
						tx.Stop(event.FinishFailed, "")
						return nil
					}

					disk.Stall(deaf)
					at := time.Now()
					if _, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrNoAnswer) ||
						time.Since(at) != test.bound {
						t.Errorf("a read: %v, after %v", err, time.Since(at))
					}
					disk.Heal()
					disk.Before(func(faultkv.Call) { disk.Stall(deaf) })
					at = time.Now()
					if err := s.Update(t.Context(),
						"s", stop); !errors.Is(err, kvstore.ErrUncertain) ||
						time.Since(at) != 2*test.bound {
						t.Errorf("a write and the look what became of it: %v, after %v",
							err, time.Since(at))
					}
					disk.Heal()
					ctx, cancel := context.WithTimeout(t.Context(), test.bound/2)
					defer cancel()
					at = time.Now()
					err = s.Update(ctx, "s", func(tx *session.Tx) error {
						tx.Stop(event.FinishStop, "again")
						return nil
					})
					if err == nil || errors.Is(err, kvstore.ErrUncertain) != deaf ||
						time.Since(at) > test.bound/2+10*time.Millisecond {
						t.Errorf("a write whose caller left: %v, after %v", err, time.Since(at))
					}
					disk.Before(nil)
					disk.Heal()
					synctest.Wait()
				})
			})
		}
	}
}

// TestLateWritesCountOnce: a write is given up as uncertain, tried again, and
// applied late, before or after the second try: once.
func TestLateWritesCountOnce(t *testing.T) {
	for name, heal := range map[string]time.Duration{"before the second try": 35 * time.Second,
		"after it": 65 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := faultkv.New(kvstore.NewMemory())
				s := session.NewStore(disk.Store, nil)
				d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
				must(t, err)
				must(t, d.Update(t.Context()))
				first := disk.Applies() + 1
				disk.Before(func(c faultkv.Call) {
					if c.Number == first {
						disk.Stall(true)
						time.AfterFunc(heal, disk.Heal)
					}
				})
				must(t, d.Update(t.Context(), func(tx *session.Tx) error {
					return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
				}))
				time.Sleep(time.Hour)
				st, err := s.Load(t.Context(), "s")
				must(t, err)
				if st.Messages != 1 {
					t.Errorf("it is there %d times", st.Messages)
				}
				d.View(func(known *session.State) {
					if known.Messages != 1 {
						t.Errorf("the drive knows of %d", known.Messages)
					}
				})
				must(t, d.GiveUp(t.Context()))
			})
		})
	}
}

// TestNobodyWaitsForTheSlot: the store hangs in a commit. A caller that looks
// at the head, leaves the drive or gives it up goes on at once. What the drive
// was left with is done when the store answers.
func TestNobodyWaitsForTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultkv.New(kvstore.NewMemory())
		s := session.NewStore(disk.Store, nil)
		d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
		must(t, err)
		must(t, d.Update(t.Context()))
		disk.Stall(true)
		ctx, cancel := context.WithCancel(t.Context())
		said := make(chan error, 1)
		go func() {
			said <- d.Update(ctx, func(tx *session.Tx) error {
				return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
			})
		}()
		synctest.Wait()
		at := time.Now()
		d.View(func(st *session.State) {
			if st.Messages != 0 {
				t.Error("what is not committed is seen")
			}
		})
		cancel()
		if err := <-said; !errors.Is(err, session.ErrGoesOn) || !errors.Is(err, context.Canceled) {
			t.Errorf("whoever waited no longer is told %v", err)
		}
		err = d.GiveUp(ctx, func(tx *session.Tx) error {
			tx.Stop(event.FinishInterrupted, "")
			return nil
		})
		if !errors.Is(err, session.ErrGoesOn) || time.Since(at) != 0 {
			t.Errorf("leaving took %v: %v", time.Since(at), err)
		}
		if _, err := s.Acquire(t.Context(), "s", nil); !errors.Is(err, session.ErrBusy) {
			t.Errorf("another drive gets %v", err)
		}
		disk.Heal()
		must(t, d.AwaitCommits(t.Context()))
		st, err := s.Load(t.Context(), "s")
		must(t, err)
		if st.Messages != 1 || st.Finish != event.FinishInterrupted || st.Held {
			t.Errorf("what was left to the drive: %+v", st)
		}
		other, err := s.Acquire(t.Context(), "s", nil)
		must(t, err)
		disk.Stall(true)
		go func() {
			said <- other.Update(t.Context(), func(tx *session.Tx) error {
				tx.Lift(tx.Halt)
				return nil
			})
		}()
		synctest.Wait()
		other.Abandon()
		third := make(chan error, 1)
		go func() { _, err := s.Acquire(t.Context(), "s", nil); third <- err }()
		synctest.Wait()
		disk.Heal()
		if err := <-third; err != nil {
			t.Errorf("after a drive was abandoned, the next gets %v", err)
		}
		<-said
	})
}
