package session_test

import (
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// asksModel has the parent told that the handle asks its model.
func asksModel(tx *session.Tx) error {
	return tx.HandleAsks(session.Asking{Name: "began",
		Child: session.HandleID("began"), Pause: 1, Assistant: true})
}

// A run whose model was to be told of a handle that asks, and wasn't, since it
// has its answer by then, waits for that handle again, and until its end.
func TestARunLingersAnewForTheSameHandle(t *testing.T) {
	kv := kvstore.NewMemory()
	d := lingering(t, kv)
	must(t, d.Update(t.Context(), fates(time.Now().Add(time.Hour))))
	must(t, d.Update(t.Context(), asksModel))
	if st := d.State(); !st.Due || st.Linger != nil {
		t.Fatalf("%+v", st)
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error { return tx.Tell(nil, tx.Notices, nil) }))
	must(t, d.Update(t.Context(), (*session.Tx).NothingNew))
	turn := d.State().Linger.Turn
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		until := tx.Now.Add(time.Hour)
		return tx.Decide(&session.Fates{Turn: turn, Last: true, Until: until,
			List: []session.HandleFate{{Name: "began", Child: session.HandleID("began"), Until: until}}})
	}))
	if st := d.State(); !st.Lingering() || st.Linger.Open != 1 || st.Finish != "" {
		t.Errorf("it waits as %+v, and has ended as %q", st.Linger, st.Finish)
	}
	problems(t, session.NewStore(kv, nil))
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.ChildEnded(&session.ChildEnd{Child: session.HandleID("began"), Call: "began",
			Handle: "began", Outcome: session.Outcome{Status: event.Done}}, fits)
	}))
	if st := d.State(); !st.Due || st.Handles != 0 {
		t.Errorf("%+v", st)
	}
}

// While handles are left to decide of, a run isn't over.
func TestARunGoesOnWhileSomethingIsToBeDecided(t *testing.T) {
	d := lingering(t, kvstore.NewMemory())
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Decide(&session.Fates{Turn: 1, Last: true, Left: true})
	}))
	if st := d.State(); session.Next(st, time.Now()).Kind != session.StepLinger || st.Finish != "" {
		t.Errorf("%+v", st)
	}
}
