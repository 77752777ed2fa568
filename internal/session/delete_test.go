package session_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
)

// A session of which only the tombstone is written refuses what comes late as
// deleted. The records and receipts that are still there tell nothing.
func TestHalfDeletedSessionIsDeleted(t *testing.T) {
	kv := faultkv.New(kvstore.NewMemory())
	s := session.NewStore(kv.Store, nil)
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
	}))
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Reply(entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
			llm.ToolCall{ID: "c", Name: "tell", Arguments: json.RawMessage(`{}`)}}}),
			[]session.Call{{ID: "c", Tool: "tell", Status: session.Requested,
				Mailbox: mailbox("x")}}, session.Stopped{}, 0)
	}))
	d.Release()
	all := map[string]func(tx *session.Tx) error{
		"cancel": func(tx *session.Tx) error { _, err := tx.Cancel("c", "bob", ""); return err },
		"event":  delivers(t, "c", "x", "1"),
		"answer": func(tx *session.Tx) error {
			rc, err := tx.Answer(&session.Incoming{Pause: "c", Kind: session.KindFail,
				Payload: blob(t, `"no"`), Hash: "h", Actor: "bob"}, nil)
			return errors.Join(rc.Err, err)
		},
	}
	must(t, s.Update(t.Context(), "s", all["event"]))
	must(t, s.Update(t.Context(), "s", all["cancel"]))
	kv.Add(faultkv.FailAt(kv.Applies() + 2)) // the first removal
	if err := s.Delete(t.Context(), "s", "bob"); !errors.Is(err, faultkv.ErrFault) {
		t.Fatal(err)
	}
	for name, f := range all {
		if err := s.Update(t.Context(), "s", f); !errors.Is(err, session.ErrDeleted) {
			t.Errorf("%s is told %v", name, err)
		}
	}
}

// Who leaves a check at its first problem, of a deleted session too, is told no
// other one.
func TestACheckOfADeletedSessionEndsWithItsCaller(t *testing.T) {
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, nil)
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	must(t, d.Update(t.Context()))
	d.Release()
	must(t, s.Delete(t.Context(), "s", "bob"))
	replace(t, kv, kvstore.Key("h", "s"), `"deleted":`, `"watched":true,"deleted":`)
	adds(kvstore.Key("N", "s", "00000001"))(t, kv)
	for _, err := range s.Check(t.Context()) {
		must(t, err)
		break // one more would be a panic
	}
	if all := found(t, kv); strings.Count(all, "\n") != 1 {
		t.Errorf("there are %q, and not two problems", all)
	}
}
