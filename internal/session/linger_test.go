package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// What comes next for a run that is over but for its handles.
func TestNextOfARunThatLingers(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	waits := &session.Linger{Turn: 1, Waits: true, Until: now.Add(time.Hour), Open: 1, Waited: true}
	over := *waits
	over.Until = now
	halt := &session.Halt{Finish: event.FinishInterrupted}
	for name, test := range map[string]struct {
		state session.State
		want  session.StepKind
	}{
		"nothing open":         {session.State{}, session.StepIdle},
		"to decide":            {session.State{Linger: &session.Linger{Turn: 1}}, session.StepLinger},
		"to decide, halted":    {session.State{Linger: &session.Linger{Turn: 1}, Halt: halt}, session.StepHalted},
		"waits":                {session.State{Linger: waits}, session.StepWait},
		"waits, interrupted":   {session.State{Linger: waits, Halt: halt}, session.StepWait},
		"its time is over":     {session.State{Linger: &over}, session.StepExpire},
		"the model's answer":   {session.State{Due: true}, session.StepModel},
		"deleted in the midst": {session.State{Linger: &session.Linger{Turn: 1}, Deleted: now}, session.StepIdle},
	} {
		if got := session.Next(&test.state, now).Kind; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	step := session.Next(&session.State{Linger: waits}, now)
	if !step.Until.Equal(waits.Until) || step.Working() {
		t.Errorf("%+v", step)
	}
}

// lingering returns the drive of a session whose model had nothing to add while
// a handle was open.
func lingering(t *testing.T, kv kvstore.Store) *session.Lease {
	t.Helper()
	s := session.NewStore(kv, nil)
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	t.Cleanup(d.Release)
	for _, change := range []session.Transition{
		func(tx *session.Tx) error {
			return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false)
		},
		func(tx *session.Tx) error { return tx.Begin("began", newHandle(t, "began")) },
		func(tx *session.Tx) error {
			return tx.Reply(nil, nil, session.Stopped{Finish: event.FinishStop}, 0)
		},
	} {
		must(t, d.Update(t.Context(), change))
	}
	return d
}

// fates decides the fate of the one handle.
func fates(until time.Time) session.Transition {
	return func(tx *session.Tx) error {
		return tx.Decide(&session.Fates{Turn: 1, Last: true, Until: until,
			List: []session.HandleFate{{Name: "began", Child: session.HandleID("began"), Until: until}}})
	}
}

// Fates are decided once, and an end that comes once more counts once.
func TestFatesAreDecidedOnce(t *testing.T) {
	d := lingering(t, kvstore.NewMemory())
	if st := d.State(); st.Linger == nil || st.Finish != "" || !st.Ended.IsZero() {
		t.Fatalf("%+v", st)
	}
	must(t, d.Update(t.Context(), fates(time.Now().Add(time.Hour))))
	if err := d.Update(t.Context(), fates(time.Time{})); !errors.Is(err, session.ErrStale) {
		t.Errorf("decided again: %v", err)
	}
	for range 2 {
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.ChildEnded(&session.ChildEnd{Child: session.HandleID("began"), Call: "began",
				Handle: "began", Outcome: session.Outcome{Status: event.Done}}, fits)
		}))
	}
	if st := d.State(); st.Linger != nil || !st.Due || st.Handles != 0 || st.Notices != 1 {
		t.Errorf("%+v", st)
	}
}

// A run whose handles are all aborted is over at once, and owes them their end.
func TestARunWithoutFurtherHandlesIsOver(t *testing.T) {
	d := lingering(t, kvstore.NewMemory())
	must(t, d.Update(t.Context(), fates(time.Time{})))
	st := d.State()
	if st.Linger != nil || st.Due || st.Finish != event.FinishStop || st.Kept != 1 ||
		len(st.Outbox) != 1 || st.Outbox[0].Kind != session.ErrandAbort {
		t.Errorf("%+v", st)
	}
}

// A deadline has the driver decide anew, and a message ends the wait.
func TestALingeringRunGoesOn(t *testing.T) {
	d := lingering(t, kvstore.NewMemory())
	must(t, d.Update(t.Context(), fates(time.Now().Add(time.Hour))))
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		tx.Now = tx.Now.AddDate(1, 0, 0)
		return tx.Expire()
	}))
	if k := session.Next(d.State(), time.Now()).Kind; k != session.StepLinger {
		t.Errorf("next is %s", k)
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("And?")), "n", "h", false)
	}))
	if st := d.State(); st.Linger != nil || st.Handles != 1 || len(st.Outbox) != 0 {
		t.Errorf("%+v", st)
	}
}

// How a run lingers is checked when the head is read.
func TestADamagedLingerIsATypedError(t *testing.T) {
	for _, damage := range [][2]string{
		{`"linger":{"turn":1`, `"linger":{"turn":0`},
		{`"linger":{"turn":1`, `"due":true,"linger":{"turn":1`},
		{`"linger":{"turn":1`, `"linger":{"turn":1,"open":-1`},
		{`"linger":{"turn":1`, `"linger":{"turn":1,"open":1`},
		{`"linger":{"turn":1`, `"linger":{"turn":1,"waits":true`},
		{`"handles":1`, `"handles":1,"kept":-1`},
	} {
		kv := kvstore.NewMemory()
		lingering(t, kv)
		replace(t, kv, kvstore.Key("h", "s"), damage[0], damage[1])
		_, err := session.NewStore(kv, nil).Load(t.Context(), "s")
		if !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: %v", damage[1], err)
		}
	}
}
