package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

const day = 24 * time.Hour

// aged is a session whose run is over, in a store with a clock of the test's.
type aged struct {
	t   *testing.T
	kv  kvstore.Store
	s   *session.Store
	now time.Time
}

// newAged begins handles in the session, which are kept, and ends its run.
func newAged(t *testing.T, names ...string) *aged {
	t.Helper()
	a := &aged{t: t, kv: kvstore.NewMemory(), now: time.Now()}
	a.s = session.NewStore(a.kv, &session.Options{Now: func() time.Time { return a.now }})
	d, err := a.s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	defer d.Release()
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false)
	}))
	for _, name := range names {
		must(t, d.Update(t.Context(), a.begins(name, name)))
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Reply(nil, nil, session.Stopped{Finish: event.FinishStop}, 0)
	}))
	return a
}

func (a *aged) begins(call, name string) session.Transition {
	n := newHandle(a.t, call)
	n.Name, n.Policy = name, tool.HandlePolicy{AtEnd: tool.KeepAtEnd}
	return func(tx *session.Tx) error { return tx.Begin(call, n) }
}

// tells has the model told that a handle has stopped.
func (a *aged) tells(name string) {
	a.t.Helper()
	shown := []session.HandleShown{{Name: name, Child: session.HandleID(name), Told: true}}
	must(a.t, a.s.Update(a.t.Context(), "s", func(tx *session.Tx) error {
		tx.Due = true
		return tx.Tell(nil, tx.Notices, shown)
	}))
	must(a.t, a.s.Update(a.t.Context(), "s", (*session.Tx).NothingNew))
}

// sweeps sweeps, and fails the test unless so much goes.
func (a *aged) sweeps(keep session.Retention, want session.Swept) {
	a.t.Helper()
	got, err := a.s.Sweep(a.t.Context(), &keep)
	must(a.t, err)
	if got != want {
		a.t.Errorf("swept are %+v, want %+v", got, want)
	}
	problems(a.t, a.s)
}

// has fails the test unless the names are known, each by a session that is kept,
// and the others are not known.
func (a *aged) has(known map[string]bool) {
	a.t.Helper()
	for name, want := range known {
		h, err := a.s.Handle(a.t.Context(), "s", name)
		if err != nil && !errors.Is(err, session.ErrUnknownHandle) {
			a.t.Fatal(err)
		}
		if (err == nil) != want {
			a.t.Errorf("%s is known: %v", name, err == nil)
		}
		if err == nil {
			if st := load(a.t, a.s, h.Child); !st.Deleted.IsZero() {
				a.t.Errorf("the session of %s is deleted", name)
			}
		}
	}
}

// A handle that has stopped is known for its retention, and its session is kept
// as long, whatever the retention of sessions is. What the model is still to be
// told of stays, and no session goes while a handle of it is open.
func TestStoppedHandlesAreForgotten(t *testing.T) {
	a := newAged(t, "again", "told", "untold", "open")
	keep := session.Retention{Handles: 10 * day, Sessions: day, Tombstones: 1000 * day,
		Receipts: 1000 * day}
	stops(t, a.s, "again")
	must(t, a.s.Update(t.Context(), "s", a.begins("second", "again"))) // the name's next session
	stops(t, a.s, "told")
	a.tells("told")
	stops(t, a.s, "untold")
	a.now = a.now.Add(9 * day)
	a.sweeps(keep, session.Swept{})
	a.now = a.now.Add(2 * day)
	a.sweeps(keep, session.Swept{Handles: 1, Sessions: 2}) // told, and the first one of again
	a.has(map[string]bool{"again": true, "told": false, "untold": true, "open": true})
	if st := load(t, a.s, session.HandleID("again")); st.Deleted.IsZero() {
		t.Error("the session whose name was given again is left")
	}
	a.sweeps(keep, session.Swept{})
	a.tells("untold")
	a.sweeps(keep, session.Swept{Handles: 1, Sessions: 1})
	a.has(map[string]bool{"again": true, "untold": false, "open": true})
	stops(t, a.s, "open")
	a.tells("open")
	a.now = a.now.Add(11 * day)
	a.sweeps(keep, session.Swept{Handles: 1, Sessions: 1})
	a.has(map[string]bool{"again": true, "open": false})
	must(t, a.s.Update(t.Context(), session.HandleID("second"), func(tx *session.Tx) error {
		return tx.Settle("second-1", &session.Outcome{Status: event.Failed, Output: blob(t, `"no"`)})
	}))
	_, err := a.s.Deliver(t.Context(), session.HandleID("second"))
	must(t, err)
	a.now = a.now.Add(2 * day)
	a.sweeps(keep, session.Swept{Sessions: 1}) // the session itself, with all below it
	if st := load(t, a.s, session.HandleID("second")); st.Deleted.IsZero() {
		t.Error("the last handle outlives its parent")
	}
}

// A name that was forgotten just before a crash takes its session along with
// the next sweep. While a turn is open, none is forgotten.
func TestForgettingGoesOnAfterACrash(t *testing.T) {
	a := newAged(t, "one")
	stops(t, a.s, "one")
	a.tells("one")
	a.now = a.now.Add(31 * day)
	must(t, a.s.Update(t.Context(), "s", func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("More.")), "n", "h", false)
	}))
	m := entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.ToolCall{ID: "c", Name: "pay", Arguments: []byte(`{}`)}}})
	must(t, a.s.Update(t.Context(), "s", func(tx *session.Tx) error {
		return tx.Reply(m, []session.Call{{ID: "c", Tool: "pay", Status: session.Requested,
			Effect: tool.ReadOnly}}, session.Stopped{}, 0)
	}))
	a.sweeps(session.Retention{}, session.Swept{})
	a.has(map[string]bool{"one": true})
	removes(kvstore.Key("z", "s", "one"))(t, a.kv)
	a.sweeps(session.Retention{}, session.Swept{Sessions: 1})
	if st := load(t, a.s, session.HandleID("one")); st.Deleted.IsZero() {
		t.Error("the session of a forgotten name is left")
	}
}

// Nothing is left of a session with handles, notices, content and awaits, nor of
// its handles.
func TestDeletedHandlesLeaveNothing(t *testing.T) {
	kv := withHandles(t)
	now := time.Now()
	s := session.NewStore(kv, &session.Options{Now: func() time.Time { return now }})
	before := map[string]bool{}
	for e := range everything(t, kv) {
		parts, _ := kvstore.Parts([]byte(e))
		before[parts[0]] = true
	}
	for _, kind := range []string{"z", "y", "q", "f"} {
		if !before[kind] {
			t.Errorf("there was no record of kind %q", kind)
		}
	}
	must(t, s.Delete(t.Context(), "top", "ada"))
	_, err := s.Deliver(t.Context(), "top")
	must(t, err)
	problems(t, s)
	for range 3 {
		now = now.Add(1000 * day)
		_, err := s.Sweep(t.Context(), nil)
		must(t, err)
	}
	for e := range everything(t, kv) {
		if parts, _ := kvstore.Parts([]byte(e)); parts[0] != "s" && parts[0] != "t" && parts[0] != "x" {
			t.Errorf("%q is left", parts)
		}
	}
}

// What a call that ran in its turn has produced goes with the call's record.
func TestContentGoesWithItsCall(t *testing.T) {
	now := time.Now()
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, &session.Options{Now: func() time.Time { return now }})
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	m := entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.ToolCall{ID: "c", Name: "pay", Arguments: []byte(`{}`)}}})
	results := entry(t, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{
		llm.ToolResult{Call: "c", Output: []byte(`1`)}}})
	for _, change := range []session.Transition{
		func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false) },
		func(tx *session.Tx) error {
			return tx.Reply(m, []session.Call{{ID: "c", Tool: "pay", Status: session.Requested,
				Effect: tool.ReadOnly}}, session.Stopped{}, 0)
		},
		func(tx *session.Tx) error {
			tx.PutContent("c", &session.Content{Content: tool.Content{Total: 2, Head: "ab", At: tx.Now}})
			return tx.Settle("c", &session.Outcome{Status: event.Done, Output: blob(t, `1`)})
		},
		func(tx *session.Tx) error { return tx.Close(results, []event.Status{event.Done}) },
	} {
		must(t, d.Update(t.Context(), change))
	}
	d.Release()
	problems(t, s)
	now = now.Add(31 * day)
	_, err = s.Sweep(t.Context(), nil)
	must(t, err)
	problems(t, s)
	if c, err := s.Content(t.Context(), "s", "c"); c != nil || err != nil {
		t.Errorf("it is left, with %v", err)
	}
}

// everything lists the keys of a store.
func everything(t *testing.T, kv kvstore.Store) map[string]bool {
	t.Helper()
	page, err := kv.Scan(t.Context(), kvstore.Range{})
	must(t, err)
	if page.More {
		t.Fatal("there are more keys than a page has")
	}
	all := map[string]bool{}
	for _, e := range page.Entries {
		all[string(e.Key)] = true
	}
	return all
}
