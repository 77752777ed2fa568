package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// withHandles returns an engine with the session "top", whose open turn has
// begun three handles and awaits "b" and "c": of them "b" goes on and has
// produced something, and "c" has stopped. Of "a" it is known that it has
// stopped, and the model is not told yet.
func withHandles(t *testing.T) kvstore.Store {
	t.Helper()
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, nil)
	d, err := s.Acquire(t.Context(), "top", &session.New{User: "ada"})
	must(t, err)
	defer d.Release()
	m := llm.Message{Role: llm.RoleAssistant}
	var calls []session.Call
	for _, id := range []string{"a", "b", "c", "waits"} {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "pay", Arguments: json.RawMessage(`{}`)})
		calls = append(calls, session.Call{ID: id, Tool: "pay", Status: session.Requested,
			Effect: "idempotent", MayPause: true})
	}
	list := []session.Awaited{{Name: "b", Child: session.HandleID("b"), All: true},
		{Name: "c", Child: session.HandleID("c"), All: true}}
	for _, change := range []session.Transition{
		func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false) },
		func(tx *session.Tx) error { return tx.Reply(entry(t, m), calls, session.Stopped{}, 0) },
		begins(t, "a"), begins(t, "b"), begins(t, "c"),
	} {
		must(t, d.Update(t.Context(), change))
	}
	stops(t, s, "a")
	_, err = d.Refresh(t.Context())
	must(t, err)
	must(t, d.Update(t.Context(), awaitsAll(t, "waits", list...)))
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Register("waits", 1, 0, list)
	}))
	stops(t, s, "c")
	must(t, s.PutContent(t.Context(), session.HandleID("b"), "b-1",
		&session.Content{Content: tool.Content{Total: 2, Head: "ab", At: time.Now()}}))
	problems(t, s)
	return kv
}

// stops settles the call of a handle, and tells its parent.
func stops(t *testing.T, s *session.Store, name string) {
	t.Helper()
	d, err := s.Acquire(t.Context(), session.HandleID(name), nil)
	must(t, err)
	defer d.Release()
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Settle(name+"-1", &session.Outcome{Status: event.Done, Output: blob(t, `1`)})
	}))
	_, err = s.Deliver(t.Context(), session.HandleID(name))
	must(t, err)
}

func found(t *testing.T, kv kvstore.Store) string {
	t.Helper()
	var all []string
	for p, err := range session.NewStore(kv, nil).Check(t.Context()) {
		must(t, err)
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

// Check reports handles whose records, sessions and counts don't go together.
func TestCheckReportsDamagedHandles(t *testing.T) {
	z := func(name string) []byte { return kvstore.Key("z", "top", name) }
	q := func(call string) []byte { return kvstore.Key("q", "child:b", call) }
	y := func(session string, n int) []byte {
		return kvstore.Key("y", session, fmt.Sprintf("%08d", n))
	}
	head := func(name string) []byte { return kvstore.Key("h", session.HandleID(name)) }
	top := kvstore.Key("h", "top")
	edits := func(key []byte, old, by string) func(*testing.T, kvstore.Store) {
		return func(t *testing.T, kv kvstore.Store) { replace(t, kv, key, old, by) }
	}
	copies := func(from, to []byte) func(*testing.T, kvstore.Store) {
		return func(t *testing.T, kv kvstore.Store) {
			e, err := kv.Get(t.Context(), from)
			must(t, err)
			_, err = kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: to, Value: e.Value}}})
			must(t, err)
		}
	}
	for name, damage := range map[string]struct {
		do   func(*testing.T, kvstore.Store)
		want string
	}{
		"no record of an open one":   {removes(z("b")), "has no open handle"},
		"no session of an open one":  {removes(head("b")), "and its session \"child:b\" is not there"},
		"another's session":          {edits(z("b"), "child:b", "child:a"), "no handle of that name"},
		"another call":               {edits(z("b"), "b-1", "b-2"), "has no call b-2"},
		"the record of another name": {copies(z("a"), z("d")), "it is of something else"},
		"no head":                    {removes(top), "its session is not there"},
		"no head of its parent":      {removes(top), "its parent \"top\" is not there"},
		"open, and told": {func(t *testing.T, kv kvstore.Store) {
			e, err := kv.Get(t.Context(), z("a"))
			must(t, err)
			old := string(e.Value)
			i := strings.Index(old, `,"ended":`)
			j := i + strings.Index(old[i:], `,"status":"done"`) + len(`,"status":"done"`)
			replace(t, kv, z("a"), old[i:j], "")
		}, "has told that it ended"},
		"a count of handles":         {edits(top, `"handles":1`, `"handles":2`), "2 handles are open"},
		"a count of those that tell": {edits(top, `"handles":1`, `"handles":1,"telling":1`), "1 the content"},
		"a count of kept ones":       {edits(top, `"handles":1`, `"handles":1,"kept":1`), "1 of them"},
		"an await of another call":   {edits(z("b"), `"waits"`, `"other"`), "doesn't know of that"},
		"an await of another pause":  {edits(z("b"), `"pause":1`, `"pause":2`), "doesn't know of that"},
		"a count of an await":        {edits(top, `"all":1`, `"all":2`), "it awaits 2 handles more"},
		"a notice too few":           {removes(y("top", 2)), "notice 2 of 2 is missing"},
		"a notice too many":          {adds(y("top", 3)), "it is not notice 3 of 2"},
		"a notice of nothing":        {adds(y("top", 1)), "a stored record is damaged"},
		"a record's notice":          {edits(z("c"), `"notice":2`, `"notice":3`), "it has notice 3 of 2"},
		"content of no call":         {copies(q("b-1"), q("b-2")), "produced that is not there"},
		"content of no session":      {adds(kvstore.Key("q", "none", "b-1")), "its session is not there"},
		"a handle of no session":     {copies(z("a"), kvstore.Key("z", "x", "a")), "its session is not there"},
		"a notice of no session":     {adds(y("none", 1)), "its session is not there"},
		"a record that is no record": {adds(kvstore.Key("z", "a", "b", "c")), "no record of a handle"},
	} {
		t.Run(name, func(t *testing.T) {
			kv := withHandles(t)
			damage.do(t, kv)
			if all := found(t, kv); !strings.Contains(all, damage.want) {
				t.Errorf("it reports\n%s\nand not that %s", all, damage.want)
			}
		})
	}
}

// Whatever is cut off, emptied or swapped in a record of a handle, Check
// reports it, and blames no session but those that it belongs to.
func TestCheckReportsEveryDamagedRecordOfHandles(t *testing.T) {
	sound := withHandles(t)
	for _, kind := range []string{"z", "q", "y"} {
		page, err := sound.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
		must(t, err)
		if len(page.Entries) == 0 {
			t.Fatalf("there is no record of kind %s", kind)
		}
		for n := range page.Entries {
			for m := range 4 {
				kv := withHandles(t)
				page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
				must(t, err)
				e := page.Entries[n]
				was := e.Value
				value := map[int][]byte{0: nil, 1: was[:len(was)/2], 2: []byte("{}"), 3: []byte("null")}[m]
				_, err = kv.Apply(t.Context(), kvstore.Batch{
					Puts: []kvstore.Put{{Key: e.Key, Value: value}}})
				must(t, err)
				parts, _ := kvstore.Parts(e.Key)
				if all := found(t, kv); !strings.Contains(all, fmt.Sprintf("session %q", parts[1])) {
					t.Errorf("%q as %q: it reports %q", parts, value, all)
				}
			}
		}
	}
}

// A count of what a run lingers for is checked against the records.
func TestCheckCountsWhatARunLingersFor(t *testing.T) {
	kv := kvstore.NewMemory()
	d := lingering(t, kv)
	must(t, d.Update(t.Context(), fates(time.Now().Add(time.Hour))))
	problems(t, session.NewStore(kv, nil))
	replace(t, kv, kvstore.Key("h", "s"), `"open":1`, `"open":2`)
	if all := found(t, kv); !strings.Contains(all, "lingers for 2 handles") {
		t.Errorf("it reports %q", all)
	}
}
