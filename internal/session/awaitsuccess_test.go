package session_test

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// An await of a success goes on after a handle that has failed, and ends with
// the first that ended well, or with the last of all.
func TestAnAwaitOfASuccess(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []event.Status // of handles a, b: known when it registers, and told later
		open          bool
	}{
		"the first success":         {after: []event.Status{event.Done}},
		"a failure isn't one":       {after: []event.Status{event.Failed}, open: true},
		"a success after a failure": {after: []event.Status{event.Failed, event.Done}},
		"all have failed":           {after: []event.Status{event.Failed, event.Cancelled}},
		"a success before":          {before: []event.Status{event.Done}},
		"a failure before":          {before: []event.Status{event.Failed}, open: true},
		"all have failed before":    {before: []event.Status{event.Failed, event.Failed}},
		"one failed before, one after it": {before: []event.Status{event.Failed},
			after: []event.Status{event.Failed}},
	} {
		s := session.NewStore(kvstore.NewMemory(), nil)
		d := begunTwo(t, s)
		names := []string{"a", "b"}
		for i, status := range c.before {
			endsAs(t, s, names[i], status)
		}
		var list []session.Awaited
		for _, name := range names {
			list = append(list, session.Awaited{Name: name, Child: session.HandleID(name), Any: true})
		}
		raw, err := json.Marshal(list)
		must(t, err)
		a, err := tool.Await{Reason: tool.ReasonHandles,
			Handles: &tool.HandleWait{Any: names, Success: true}}.Normalize()
		must(t, err)
		h := &session.Hold{Await: a, Awaited: list, AwaitedList: blob(t, string(raw))}
		_, err = d.Refresh(t.Context())
		must(t, err)
		must(t, d.Update(t.Context(), func(tx *session.Tx) error { return tx.Pause("waits", h) }))
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.Register("waits", 1, 0, list)
		}))
		for i, status := range c.after {
			endsAs(t, s, names[len(c.before)+i], status)
		}
		st, err := s.Load(t.Context(), "top")
		must(t, err)
		if open := st.Call("waits").Status == session.Pending; open != c.open {
			t.Errorf("%s: it waits on: %v", name, open)
		}
		problems(t, s)
		d.Release()
	}
}

// begunTwo returns the drive of a session whose open turn has begun two handles,
// "a" and "b", and has a call that is to wait for them, "waits".
func begunTwo(t *testing.T, s *session.Store) *session.Lease {
	t.Helper()
	d, err := s.Acquire(t.Context(), "top", &session.New{User: "ada"})
	must(t, err)
	m := llm.Message{Role: llm.RoleAssistant}
	var calls []session.Call
	for _, id := range []string{"a", "b", "waits"} {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "pay", Arguments: json.RawMessage(`{}`)})
		calls = append(calls, session.Call{ID: id, Tool: "pay", Status: session.Requested,
			Effect: tool.Idempotent, MayPause: true})
	}
	for _, change := range []session.Transition{
		func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false) },
		func(tx *session.Tx) error { return tx.Reply(entry(t, m), calls, session.Stopped{}, 0) },
		begins(t, "a"), begins(t, "b"),
	} {
		must(t, d.Update(t.Context(), change))
	}
	return d
}

// endsAs settles the call of a handle, and tells its parent.
func endsAs(t *testing.T, s *session.Store, name string, status event.Status) {
	t.Helper()
	d, err := s.Acquire(t.Context(), session.HandleID(name), nil)
	must(t, err)
	defer d.Release()
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Settle(name+"-1", &session.Outcome{Status: status, Output: blob(t, `1`)})
	}))
	_, err = s.Deliver(t.Context(), session.HandleID(name))
	must(t, err)
}
