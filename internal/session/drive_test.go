package session_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
)

// A driver acts on the head that it sees, and shows it: never one that was not
// committed.
func TestADriveSeesWhatIsCommitted(t *testing.T) {
	kv := faultkv.New(kvstore.NewMemory())
	s := session.NewStore(kv.Store, nil)
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	defer d.Release()
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		if err := tx.Say(entry(t, llm.UserText("Go.")), "", "", false); err != nil {
			return err
		}
		calls := []session.Call{{ID: "c", Tool: "job", Status: session.Requested}, {ID: "e",
			Tool: "job", Status: session.Requested}}
		return tx.Reply(entry(t, llm.AssistantText("I call.")), calls, session.Stopped{}, 0)
	}))
	settle := func(call string) session.Transition {
		return func(tx *session.Tx) error {
			return tx.Settle(call, &session.Outcome{Status: event.Done,
				Output: session.StringBlob("ok")})
		}
	}
	refused := errors.New("refused")
	for name, fail := range map[string]func() error{
		"a store that refuses the write": func() error {
			kv.Add(faultkv.FailAt(kv.Applies() + 1))
			return d.Update(t.Context(), settle("e"))
		},
		"a second transition that is refused": func() error {
			return d.Update(t.Context(), settle("e"), func(*session.Tx) error { return refused })
		},
		"one that rides and is refused": func() error {
			return d.Ride(t.Context(), func(tx *session.Tx) error {
				return cmp.Or(settle("e")(tx), refused)
			})
		},
	} {
		must(t, d.Ride(t.Context(), settle("c")))
		if err := fail(); err == nil {
			t.Fatalf("%s: no error", name)
		}
		d.View(func(st *session.State) {
			if got := st.Call("e").Status; got != session.Requested {
				t.Errorf("%s: the call is seen as %s", name, got)
			}
			if got := st.Call("c").Status; got != session.Settled {
				t.Errorf("%s: what rides is seen as %s", name, got)
			}
		})
		if _, err := d.Record(t.Context(), "c"); err != nil {
			t.Errorf("%s: the record of what rides: %v", name, err)
		}
		// as it was at the start, for the next case
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			*tx.Call("c") = session.Call{ID: "c", Tool: "job", Status: session.Requested}
			return nil
		}))
	}
}

// Two processes look at their clocks, one before a deadline, and one after it.
// What the second is told is true.
func TestRefusedForADeadlineOnlyWhereItCounts(t *testing.T) {
	kv, _ := gated(t)
	faults := faultkv.New(kv)
	early, late := session.NewStore(kv, nil), session.NewStore(faults.Store, &session.Options{
		Now: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	must(t, early.Update(t.Context(), "first", func(tx *session.Tx) error {
		return tx.Extend("c2", tx.Now.Add(time.Hour))
	}))
	first := true
	faults.Before(func(faultkv.Call) {
		if !first {
			return
		}
		first = false
		must(t, early.Update(t.Context(), "first", func(tx *session.Tx) error {
			r, err := tx.Answer(&session.Incoming{Pause: "c2.1", Kind: session.KindComplete,
				Payload: session.StringBlob("ok"), Hash: "h"}, fits)
			return errors.Join(err, r.Err)
		}))
	})
	err := late.Update(t.Context(), "first", func(tx *session.Tx) error {
		_, err := tx.Cancel("c2", "bob", "")
		return err
	})
	st, loadErr := early.Load(t.Context(), "first")
	must(t, loadErr)
	// an answer that no driver took up can be cancelled
	if got := st.Call("c2").Settled; err != nil || got != event.Cancelled {
		t.Errorf("the cancellation is told %v, and the call is %q", err, got)
	}
}

// calls begins a session whose model has asked for one call, "c".
func calls(t *testing.T, s *session.Store) *session.Lease {
	t.Helper()
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return errors.Join(tx.Say(entry(t, llm.UserText("Go.")), "", "", false),
			tx.Reply(entry(t, llm.AssistantText("I call.")),
				[]session.Call{{ID: "c", Tool: "pay", Status: session.Requested}},
				session.Stopped{}, 0))
	}))
	return d
}

// A drive whose session another process has taken, since it took the drive for
// dead, writes nothing more, whether or not the other one has it still.
func TestDriveThatWasOvertakenWritesNothing(t *testing.T) {
	for name, stays := range map[string]bool{"the other has it": true, "the other has left": false} {
		t.Run(name, func(t *testing.T) {
			kv := struct{ kvstore.Store }{kvstore.NewMemory()}
			d := calls(t, session.NewStore(kv, nil))
			late := session.NewStore(kv, &session.Options{
				Now: func() time.Time { return time.Now().Add(time.Hour) }})
			other, err := late.Acquire(t.Context(), "s", nil)
			must(t, err)
			must(t, other.Update(t.Context(), func(tx *session.Tx) error { tx.AskNow(); return nil }))
			if !stays {
				must(t, other.GiveUp(t.Context()))
			}
			err = d.Update(t.Context(), func(tx *session.Tx) error { return tx.Claim("c") })
			if !errors.Is(err, session.ErrFenced) {
				t.Errorf("a commit: %v", err)
			}
			must(t, d.GiveUp(t.Context(), func(tx *session.Tx) error {
				tx.Stop(event.FinishFailed, "")
				return nil
			}))
			st, err := late.Load(t.Context(), "s")
			must(t, err)
			if got := st.Call("c").Status; got != session.Requested || st.Halt != nil {
				t.Errorf("the call is %s, and the session's halt %v", got, st.Halt)
			}
		})
	}
}

// TestDriveThatGaveItsLeaseUpWritesNothing: a driver goes on with a drive that
// it has left. Nothing of that is written.
func TestDriveThatGaveItsLeaseUpWritesNothing(t *testing.T) {
	for name, kv := range map[string]kvstore.Store{"exclusive": kvstore.NewMemory(),
		"shared": struct{ kvstore.Store }{kvstore.NewMemory()}} {
		t.Run(name, func(t *testing.T) {
			s := session.NewStore(kv, nil)
			d := calls(t, s)
			must(t, d.GiveUp(t.Context()))
			before, err := s.Load(t.Context(), "s")
			must(t, err)
			claim := func(tx *session.Tx) error { return tx.Claim("c") }
			for what, try := range map[string]func() error{
				"a commit":       func() error { return d.Update(t.Context(), claim) },
				"what rides":     func() error { return d.Ride(t.Context(), claim) },
				"the last look":  func() error { return d.MayEnter(t.Context(), "c") },
				"the first look": func() error { _, err := d.Secure(t.Context()); return err },
			} {
				if err := try(); !errors.Is(err, session.ErrFenced) {
					t.Errorf("%s: %v", what, err)
				}
			}
			// it has left
			must(t, d.GiveUp(t.Context(), func(tx *session.Tx) error {
				tx.Stop(event.FinishFailed, "")
				return nil
			}))
			after, err := s.Load(t.Context(), "s")
			must(t, err)
			if got := after.Call("c").Status; got != session.Requested || after.Halt != nil ||
				string(after.Commits) != string(before.Commits) {
				t.Errorf("the call is %s, and the session's halt %v", got, after.Halt)
			}
		})
	}
}
