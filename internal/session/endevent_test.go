package session_test

import (
	"fmt"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// The end of a run is owed once to each receiver, by each name, however often
// that asked for it, and whichever way the run ends. What asks after that hears
// that it is over.
func TestTheEndOfARunIsToldOnce(t *testing.T) {
	for name, end := range map[string]session.Transition{
		"cancelled": func(tx *session.Tx) error {
			tx.End(event.FinishCancelled, "ada", "no")
			return nil
		},
		"interrupted": func(tx *session.Tx) error {
			tx.Stop(event.FinishInterrupted, "")
			return nil
		},
		"deleted": func(tx *session.Tx) error { tx.Delete("ada"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := session.NewStore(kvstore.NewMemory(), nil)
			d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
			must(t, err)
			defer d.Release()
			ids := 0
			asks := func(receiver, event string) (over bool) {
				t.Helper()
				ids++
				must(t, s.Update(t.Context(), "s", func(tx *session.Tx) (err error) {
					over, err = tx.TellEnd(session.EndEvent{Session: receiver, Event: event,
						ID: fmt.Sprint(ids)})
					return err
				}))
				return over
			}
			message := entry(t, llm.UserText("Go."))
			must(t, d.Update(t.Context(), func(tx *session.Tx) error {
				return tx.Say(message, "m", "h", true)
			}))
			for range 2 {
				if asks("a", "ended") || asks("a", "done") || asks("b", "ended") {
					t.Error("the run is over while it goes on")
				}
			}
			must(t, s.Update(t.Context(), "s", end))
			st, err := s.Load(t.Context(), "s")
			must(t, err)
			owed := map[string]int{}
			for _, e := range st.Outbox {
				owed[e.To+" "+e.Event.Event]++
			}
			if len(owed) != 3 || owed["a ended"] != 1 || owed["a done"] != 1 || owed["b ended"] != 1 {
				t.Errorf("it owes %v", owed)
			}
			over := asks("a", "ended")
			st, err = s.Load(t.Context(), "s")
			must(t, err)
			if !over || len(st.Outbox) != 3 || st.EndEvents != nil {
				t.Errorf("what asks later is told, too: %+v", st.Outbox)
			}
		})
	}
}

// No more than so many sessions are told of one end.
func TestTooManyAreToBeToldOfAnEnd(t *testing.T) {
	d := busy(t)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = d.Update(t.Context(), func(tx *session.Tx) error {
			_, err := tx.TellEnd(session.EndEvent{Session: fmt.Sprint("s", i), Event: "ended", ID: "1"})
			return err
		})
	}
	if n := len(d.State().EndEvents); err == nil || n != 64 {
		t.Errorf("%d are to be told; %v", n, err)
	}
}
