package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// TestWhatADriveLeaves: a drive that ends without a commit that gives its
// session up leaves it to the workers of its process, whatever became of what it
// had sent.
func TestWhatADriveLeaves(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *faultkv.Injector, *session.Lease){
		"given up by Close": func(_ *testing.T, _ *faultkv.Injector, d *session.Lease) { d.Abandon() },
		"the last commit fails": func(t *testing.T, f *faultkv.Injector, d *session.Lease) {
			f.Add(faultkv.FailAt(f.Applies() + 1))
			if d.GiveUp(t.Context()) == nil {
				t.Error("it didn't fail")
			}
		},
		"the last commit is never acknowledged": func(t *testing.T, f *faultkv.Injector, d *session.Lease) {
			f.Add(faultkv.LoseAt(f.Applies() + 1).AndDie())
			if d.GiveUp(t.Context()) == nil {
				t.Error("it was acknowledged")
			}
		},
		"a commit hangs": func(t *testing.T, f *faultkv.Injector, d *session.Lease) {
			f.Stall(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := d.Update(ctx, says(t)); !errors.Is(err, session.ErrGoesOn) {
				t.Errorf("the commit: %v", err)
			}
			d.Abandon()
			time.Sleep(time.Second)
			f.Heal()
		},
		"the engine ends the goroutine": func(t *testing.T, f *faultkv.Injector, d *session.Lease) {
			f.Before(func(faultkv.Call) { f.Before(nil); panic("in the engine") })
			func() {
				defer func() { _ = recover() }()
				_ = d.GiveUp(t.Context())
			}()
			d.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := kvstore.NewMemory()
				f := faultkv.New(m)
				s, other := session.NewStore(f.Store, nil), session.NewStore(m, nil)
				d := hold(t, s, "s")
				finds(t, other, "held", nil, nil)
				woken, stop := other.WatchWork()
				defer stop()
				leave(t, f, d)
				synctest.Wait()
				select {
				case <-woken:
				default:
					t.Error("no worker was woken")
				}
				if got := left(t, other); !slices.Equal(got, []string{"s"}) {
					t.Errorf("workers find %q", got)
				}
				next, err := other.Acquire(t.Context(), "s", nil)
				must(t, err)
				must(t, next.Update(t.Context(), over))
				must(t, next.Rest(t.Context()))
				next.Release()
				finds(t, other, "over", nil, nil)
				indexed(t, m, 0)
				wellIndexed(t, other)
			})
		})
	}
}

// TestALateWriteOfALeftSession: a drive is given up while its first commit is on
// its way. A worker looks before that arrives, finds nothing to do, and keeps it
// out all the same, or else takes the session up.
func TestALateWriteOfALeftSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := kvstore.NewMemory()
		f := faultkv.New(m)
		s, other := session.NewStore(f.Store, nil), session.NewStore(m, nil)
		first := hold(t, other, "s")
		must(t, first.Update(t.Context(), over))
		must(t, first.GiveUp(t.Context()))
		d, err := s.Acquire(t.Context(), "s", nil)
		must(t, err)
		f.Stall(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = d.Update(ctx, says(t))
		d.Abandon()
		finds(t, other, "left", nil, []string{"s"})
		next, err := other.Acquire(t.Context(), "s", nil)
		must(t, err)
		if next.Heir() || next.Next().Working() {
			t.Error("the late write was there already")
		}
		must(t, next.Rest(t.Context()))
		next.Release()
		f.Heal()
		synctest.Wait()
		finds(t, other, "at last", nil, nil)
		st, err := other.Load(t.Context(), "s")
		must(t, err)
		if st.Held || session.Next(st, time.Now()).Working() {
			t.Error("the late write was applied, and no worker will find the session")
		}
	})
}

// TestAnswersToWhatIsHeld: what is committed beside a drive leaves the session
// where the drive, or the next one, finds it.
func TestAnswersToWhatIsHeld(t *testing.T) {
	m := kvstore.NewMemory()
	s := session.NewStore(m, nil)
	hold(t, s, "s")
	m = m.Reopen()
	s = session.NewStore(m, nil)
	beside := func(tx *session.Tx) error { tx.EndInOrder(); return nil }
	must(t, s.Update(t.Context(), "s", beside)) // before the index is read
	finds(t, s, "after the crash", nil, []string{"s"})
	d, err := s.Acquire(t.Context(), "s", nil)
	must(t, err)
	must(t, d.Update(t.Context()))
	finds(t, s, "held again", nil, []string{"s"})
	d.Release()
	must(t, s.Update(t.Context(), "s", beside))
	finds(t, s, "left", nil, []string{"s"})
	wellIndexed(t, s)
}

// TestDeletedWhileItIsHeld: nothing is left of it, and workers forget it.
func TestDeletedWhileItIsHeld(t *testing.T) {
	m := kvstore.NewMemory()
	s := session.NewStore(m, nil)
	d := hold(t, s, "s")
	must(t, s.Delete(t.Context(), "s", "ada"))
	indexed(t, m, 0)
	d.Release()
	found, _, err := s.Left(t.Context(), "ops", "")
	must(t, err)
	for _, e := range found {
		if _, err := s.Acquire(t.Context(), e.Session, nil); !errors.Is(err, session.ErrDeleted) {
			t.Errorf("a worker gets %v", err)
		}
		s.Forget(e)
	}
	finds(t, s, "forgotten", nil, nil)
	wellIndexed(t, s)
}
