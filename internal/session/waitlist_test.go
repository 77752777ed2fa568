package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// withWaits returns an engine with the session "top", whose open turn has made
// the wait handles "a" and "b", of which "a" has ended.
func withWaits(t *testing.T) kvstore.Store {
	t.Helper()
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, nil)
	d, err := s.Acquire(t.Context(), "top", &session.New{User: "ada"})
	must(t, err)
	defer d.Release()
	m := llm.Message{Role: llm.RoleAssistant}
	var calls []session.Call
	for _, id := range []string{"a", "b"} {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "pay", Arguments: json.RawMessage(`{}`)})
		calls = append(calls, session.Call{ID: id, Tool: "pay", Status: session.Requested,
			Effect: "idempotent", MayPause: true})
	}
	makes := func(id string) session.Transition {
		n := newHandle(t, id)
		n.Wait = &session.Wait{Type: tool.HookWait, Start: time.Now()}
		o := &session.Outcome{Status: "done", Output: blob(t, `1`), Begins: n}
		return func(tx *session.Tx) error { return tx.Settle(id, o) }
	}
	for _, change := range []session.Transition{
		func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false) },
		func(tx *session.Tx) error { return tx.Reply(entry(t, m), calls, session.Stopped{}, 0) },
		makes("a"), makes("b"),
	} {
		must(t, d.Update(t.Context(), change))
	}
	stops(t, s, "a")
	problems(t, s)
	return kv
}

// Lists have each wait handle where it belongs, page by page.
func TestWaitHandlesAreListed(t *testing.T) {
	kv := withWaits(t)
	s := session.NewStore(kv, nil)
	st, err := s.Load(t.Context(), "top")
	must(t, err)
	for want, f := range map[string]session.WaitFilter{
		"a b": {}, "a": {Status: tool.WaitCompleted}, "b": {After: "a"},
		"b ": {Status: tool.WaitPending, Type: tool.HookWait}, "": {Type: tool.TimerWait},
		" ": {Status: tool.WaitPending, After: "b"},
	} {
		page, more, err := s.WaitHandles(t.Context(), st, f, 5, time.Now())
		must(t, err)
		var names []string
		for _, h := range page {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != strings.TrimSpace(want) || more {
			t.Errorf("%+v: %q, more %v", f, got, more)
		}
	}
	page, more, err := s.WaitHandles(t.Context(), st, session.WaitFilter{}, 1, time.Now())
	if err != nil || len(page) != 1 || page[0].Name != "a" || !more {
		t.Errorf("%+v, %v, %v", page, more, err)
	}
}

// One that ends while lists are read is found there, or where it has gone.
func TestAHandleThatEndsIsNotMissed(t *testing.T) {
	kv := withWaits(t)
	s := session.NewStore(kv, nil)
	old, err := s.Load(t.Context(), "top")
	must(t, err)
	old.Waits = []session.WaitN{{Type: tool.HookWait, Status: tool.WaitPending, N: 2}} // before
	stops(t, s, "b")
	page, _, err := s.WaitHandles(t.Context(), old, session.WaitFilter{}, 5, time.Now())
	if err != nil || len(page) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
}

// Check reports lists and counts of wait handles that are not those of their
// records.
func TestCheckReportsDamagedListsOfWaits(t *testing.T) {
	key := func(status, name string) []byte { return kvstore.Key("Y", "top", "hook", status, name) }
	for name, damage := range map[string]struct {
		do   func(*testing.T, kvstore.Store)
		want string
	}{
		"an entry is missing": {removes(key("pending", "b")), "a wait handle is missing there"},
		"an entry of before":  {adds(key("pending", "a")), "no wait handle stands there"},
		"of no session":       {adds(kvstore.Key("Y", "x", "hook", "pending", "b")), "is not there"},
		"no entry":            {adds(kvstore.Key("Y", "top")), "no record of a list"},
		"a count": {func(t *testing.T, kv kvstore.Store) {
			replace(t, kv, kvstore.Key("h", "top"), `"pending","n":1`, `"pending","n":2`)
		}, "it counts 2 kinds"},
		"no count": {func(t *testing.T, kv kvstore.Store) {
			replace(t, kv, kvstore.Key("h", "top"), `"pending","n":1`, `"pending","n":0`)
		}, "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			kv := withWaits(t)
			damage.do(t, kv)
			if all := found(t, kv); !strings.Contains(all, damage.want) {
				t.Errorf("it reports\n%s\nand not that %s", all, damage.want)
			}
		})
	}
}
