package session_test

import (
	"testing"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// An entry of the wake index has the user of its session: of a child that was
// made just now, and of any session that has something to do. One of an older
// version has none, and is found all the same.
func TestDueEntriesTellTheUser(t *testing.T) {
	kv := kvstore.NewMemory()
	p := newParent(t, kv, "c1")
	found := func(want string) {
		t.Helper()
		due, _, _, err := p.store.Due(t.Context(), "helper", nil)
		must(t, err)
		if len(due) != 1 || due[0].Session != childOf("c1") || due[0].User != want {
			t.Errorf("due are %+v, and not one of %q", due, want)
		}
	}
	p.do(spawns(t, "c1", session.Left{}))
	found("ada")
	finishes(t, p.store, childOf("c1"), "Done it.") // which it is to tell its parent
	found("ada")
	page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("w", "helper")})
	must(t, err)
	older := kvstore.Put{Key: page.Entries[0].Key}
	_, err = kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{older}})
	must(t, err)
	found("")
	problems(t, p.store)
}
