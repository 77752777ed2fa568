package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// gated returns a store with two sessions. In the first a call waits at a gate,
// and another one for an output; nothing waits in the second.
func gated(t *testing.T) (kvstore.Store, *session.Store) {
	t.Helper()
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, nil)
	for _, id := range []string{"first", "second"} {
		d, err := s.Acquire(t.Context(), id, &session.New{User: "ada"})
		must(t, err)
		m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
			llm.ToolCall{ID: "c1", Name: "pay", Arguments: json.RawMessage(`{}`)},
			llm.ToolCall{ID: "c2", Name: "job", Arguments: json.RawMessage(`{}`)},
		}}
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			if err := tx.Say(entry(t, llm.UserText("Go.")), "", "", false); err != nil {
				return err
			}
			if id == "second" {
				return tx.Reply(entry(t, llm.AssistantText("Yes?")), nil,
					session.Stopped{Finish: event.FinishStop}, 0)
			}
			calls := []session.Call{{ID: "c1", Tool: "pay", Status: session.Requested}, {ID: "c2",
				Tool: "job", Status: session.Requested, MayPause: true, Effect: tool.Idempotent}}
			return tx.Reply(entry(t, m), calls, session.Stopped{}, 0)
		}))
		if id == "first" {
			must(t, d.Update(t.Context(), pause("c1", tool.Await{
				Gate: "approval", Arguments: json.RawMessage(`{}`),
			})))
			must(t, d.Update(t.Context(), pause("c2", tool.Await{})))
			must(t, d.Update(t.Context(), func(tx *session.Tx) error {
				r, err := tx.Answer(&session.Incoming{Pause: "c1.1", Kind: session.KindDecision,
					Hash: "h", Actor: "eve"}, fits)
				return errors.Join(err, r.Err)
			}))
		}
		d.Release()
	}
	return kv, s
}

func pause(call string, await tool.Await) session.Transition {
	return func(tx *session.Tx) error {
		await, err := await.Normalize()
		if err == nil {
			err = tx.Pause(call, &session.Hold{Await: await})
		}
		return err
	}
}

func fits(session.Asked, json.RawMessage) (misfit, err error) { return nil, nil }

func entry(t testing.TB, m llm.Message) *session.Entry {
	t.Helper()
	e, err := session.NewEntry(m)
	must(t, err)
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// overwrite puts what edit makes of the first session's head in its place.
func overwrite(t *testing.T, kv kvstore.Store, edit func(string) string) {
	t.Helper()
	key := kvstore.Key("h", "first")
	e, err := kv.Get(t.Context(), key)
	must(t, err)
	edited := edit(string(e.Value))
	if edited == string(e.Value) {
		t.Fatalf("there was nothing to edit in %s", edited)
	}
	_, err = kv.Apply(t.Context(), kvstore.Batch{
		Puts: []kvstore.Put{{Key: key, Value: []byte(edited)}},
	})
	must(t, err)
}

// A record that does not add up is an error for its session alone, and never
// read as approved or as undecided.
func TestDamagedRecords(t *testing.T) {
	change := func(from, to string) func(string) string {
		return func(head string) string { return strings.Replace(head, from, to, 1) }
	}
	for name, edit := range map[string]func(string) string{
		"approved is text":      change(`"approved":false`, `"approved":"false"`),
		"approved is null":      change(`"approved":false`, `"approved":null`),
		"approved is missing":   change(`"approved":false,`, ``),
		"approved is a number":  change(`"approved":false`, `"approved":1`),
		"a decision of no gate": change(`"gate":"approval","approved"`, `"approved"`),
		"decisions are no list": func(s string) string {
			i := strings.Index(s, `"decisions":`)
			return s[:i] + `"decisions":{}` + s[strings.Index(s[i:], "]")+i+1:]
		},
		"no decisions": func(s string) string {
			i := strings.Index(s, `"decisions":`)
			return s[:i] + `"decisions":[]` + s[strings.Index(s[i:], "]")+i+1:]
		},
		"an unknown status":         change(`"status":"answered"`, `"status":"approved"`),
		"a status that does not go": change(`"status":"answered"`, `"status":"pending"`),
		"another status":            change(`"status":"pending"`, `"status":"settled"`),
		"an unknown effect":         change(`"effect":"idempotent"`, `"effect":"twice"`),
		"an unknown reason":         change(`"reason":"external"`, `"reason":"none"`),
		"a mode that does not go":   change(`"mode":"output"`, `"mode":"message"`),
		"half of it":                func(s string) string { return s[:len(s)/2] },
		"nothing":                   func(string) string { return "" },
		"null":                      func(string) string { return "null" },
		"another record":            func(string) string { return `{"role":"user"}` },
		"no version":                change(`"v":1,`, ``),
		"a version below all":       change(`"v":1,`, `"v":0,`),
		"negative counts":           change(`"msgs":2`, `"msgs":-2`),
		"a field that is null":      change(`"pauses":1`, `"pauses":1,"cancel":null`),
		"an action that is null":    change(`"pauses":1`, `"pauses":1,"actions":[null],"x":1`),
		"a field of another case": change(`"decisions":`,
			`"answer":{"pause":1,"kind":"complete","mode":"output","payload":{"json":1},"at":"2026-01-01T00:00:00Z"},"Decisions":`),
		"a field that is there twice":  change(`"turn":1`, `"turn":1,"turn":1`),
		"a field that is missing":      change(`"shown":`, `"shone":`),
		"two calls of one id":          change(`"id":"c2"`, `"id":"c1"`),
		"a call that nobody asked for": change(`"id":"c1"`, `"id":"c3"`),
		"a model's answer that is due": change(`"turn":1`, `"turn":1,"due":true`),
		"more messages than there are": change(`"msgs":2`, `"msgs":3`),
	} {
		t.Run(name, func(t *testing.T) {
			kv, s := gated(t)
			overwrite(t, kv, edit)
			st, err := s.Load(t.Context(), "first")
			if err == nil {
				_, err = s.Pauses(t.Context(), st, nil) // which reads the message that asked
			}
			if !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("it is read, with %v", err)
			}
			if err == nil || !strings.Contains(err.Error(), "first") {
				t.Errorf("the error does not name the session: %v", err)
			}
			problems := 0
			for p, err := range s.Check(t.Context()) {
				must(t, err)
				if p.Session == "first" {
					problems++
				} else if p.Session == "second" {
					t.Errorf("the other session is blamed: %v", p)
				}
			}
			if problems == 0 {
				t.Error("Check finds nothing wrong")
			}
			_, err = s.Load(t.Context(), "second")
			must(t, err)
			listed := 0
			for _, err := range s.List(t.Context(), session.Filter{}) {
				if listed++; err != nil && !errors.Is(err, session.ErrCorrupt) {
					t.Errorf("the list says %v", err)
				}
			}
			if listed != 2 {
				t.Errorf("%d sessions are listed", listed)
			}
		})
	}
	_, s := gated(t)
	for p, err := range s.Check(t.Context()) {
		t.Errorf("a sound store: %v, %v", p, err)
	}
}

// A record of a newer version is refused. Fields of a later program survive the
// operations of this one.
func TestNewerVersions(t *testing.T) {
	kv, s := gated(t)
	overwrite(t, kv, func(head string) string {
		return strings.Replace(head, `"v":1,`, `"v":2,`, 1)
	})
	if _, err := s.Load(t.Context(), "first"); !errors.Is(err, session.ErrNewerVersion) {
		t.Errorf("a newer version is read, with %v", err)
	}
	if _, err := s.Acquire(t.Context(), "first", nil); !errors.Is(err, session.ErrNewerVersion) {
		t.Errorf("a newer version is driven, with %v", err)
	}
	if err := s.Update(t.Context(), "first",
		func(*session.Tx) error { return nil }); !errors.Is(err, session.ErrNewerVersion) {
		t.Errorf("a newer version is written, with %v", err)
	}

	for key, value := range map[string]string{"c": `{"v":2,"call":"c9","status":"done"}`,
		"x": `{"v":3,"keys":[{"id":1}]}`} {
		k := map[string][]byte{"c": kvstore.Key("c", "first", "c9"),
			"x": kvstore.Key("x", "token-keys")}[key]
		_, err := kv.Apply(t.Context(), kvstore.Batch{
			Puts: []kvstore.Put{{Key: k, Value: []byte(value)}},
		})
		must(t, err)
	}
	if _, _, err := s.Record(t.Context(), "first", "c9"); !errors.Is(err, session.ErrNewerVersion) {
		t.Errorf("a call's record of a newer version is read, with %v", err)
	}
	if _, err := s.TokenKeys(t.Context()); !errors.Is(err, session.ErrNewerVersion) {
		t.Errorf("a key ring of a newer version is read, with %v", err)
	}

	kv, s = gated(t)
	overwrite(t, kv, func(head string) string {
		head = strings.Replace(head, `"v":1,`, `"v":1,"priority":{"a":[1]},`, 1)
		head = strings.Replace(head, `"gate":"approval","approved"`,
			`"gate":"approval","quorum":[2],"approved"`, 1)
		return strings.Replace(head, `"id":"c2",`, `"id":"c2","cost":9007199254740993,`, 1)
	})
	must(t, s.Update(context.Background(), "first", func(tx *session.Tx) error {
		r, err := tx.Answer(&session.Incoming{Pause: "c2.1", Kind: session.KindComplete, Hash: "h",
			Value: json.RawMessage(`1`), Payload: blob(t, `1`)}, fits)
		return errors.Join(err, r.Err)
	}))
	e, err := kv.Get(t.Context(), kvstore.Key("h", "first"))
	must(t, err)
	for _, kept := range []string{`"priority":{"a":[1]}`, `"cost":9007199254740993`,
		`"quorum":[2]`, `"v":1`} {
		if !strings.Contains(string(e.Value), kept) {
			t.Errorf("%s got lost: %s", kept, e.Value)
		}
	}
}

func blob(t testing.TB, value string) *session.Blob {
	t.Helper()
	b, err := session.NewBlob(json.RawMessage(value))
	must(t, err)
	return b
}
