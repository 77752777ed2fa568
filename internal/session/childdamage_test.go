package session_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// withChildren returns a parent with a child, a second one that is over and has not
// told it, and the engine that keeps them.
func withChildren(t *testing.T) (*parent, kvstore.Store) {
	t.Helper()
	kv := kvstore.NewMemory()
	p := newParent(t, kv, "c1", "c2")
	for _, c := range []string{"c1", "c2"} {
		p.do(spawns(t, c, session.Left{}))
	}
	finishes(t, p.store, childOf("c2"), "Done.")
	return p, kv
}

// replace changes a record by hand.
func replace(t *testing.T, kv kvstore.Store, key []byte, old, by string) {
	t.Helper()
	e, err := kv.Get(t.Context(), key)
	must(t, err)
	if !bytes.Contains(e.Value, []byte(old)) {
		t.Fatalf("%s is not in %s", old, e.Value)
	}
	b := bytes.Replace(e.Value, []byte(old), []byte(by), 1)
	_, err = kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: e.Key, Value: b}}})
	must(t, err)
}

// A damaged outbox, or a damaged path to a child, is a typed error for that
// session alone.
func TestDamagedFamiliesAreTypedErrors(t *testing.T) {
	second := kvstore.Key("h", childOf("c2"))
	for name, damage := range map[string]struct {
		key     []byte
		old, by string
		want    error
	}{
		"unknown errand":    {second, `"kind":"end"`, `"kind":"eat"`, session.ErrCorrupt},
		"no receiver":       {second, `"to":"top"`, `"to":""`, session.ErrCorrupt},
		"no path":           {second, `"path":[{`, `"path":[],"x":[{`, session.ErrCorrupt},
		"path without call": {second, `"call":"c2"`, `"call":""`, session.ErrCorrupt},
		"waits, answered": {kvstore.Key("h", "top"), `"status":"pending"`, `"status":"answered"`,
			session.ErrCorrupt},
		"later version": {second, `"v":3`, `"v":4`, session.ErrNewerVersion},
	} {
		t.Run(name, func(t *testing.T) {
			p, kv := withChildren(t)
			replace(t, kv, damage.key, damage.old, damage.by)
			fresh := session.NewStore(kv, nil)
			id := "top"
			if bytes.Equal(damage.key, second) {
				id = childOf("c2")
			}
			if _, err := fresh.Load(t.Context(), id); !errors.Is(err, damage.want) {
				t.Errorf("it is read, with %v", err)
			}
			if _, err := fresh.Deliver(t.Context(), id); !errors.Is(err, damage.want) {
				t.Errorf("its errands are carried out, with %v", err)
			}
			_, err := fresh.Load(t.Context(), childOf("c1"))
			must(t, err)
			found := false
			for pr, err := range fresh.Check(t.Context()) {
				must(t, err)
				found = found || pr.Session == id
			}
			if !found {
				t.Error("Check doesn't report it")
			}
			p.lease.Release()
		})
	}
}

// Check reports what is missing of the index of children, and of what sessions
// owe.
func TestCheckReportsDamagedFamilies(t *testing.T) {
	first, second := childOf("c1"), childOf("c2")
	for name, damage := range map[string]struct {
		do   func(*testing.T, kvstore.Store)
		want string
	}{
		"no entry of a child":   {removes(kvstore.Key("f", "top", first)), "among its parent's children"},
		"an entry of none":      {adds(kvstore.Key("f", "top", "child:none")), "is not a child of it"},
		"an entry that is none": {adds(kvstore.Key("f", "top")), "it is no entry of a child"},
		"no child":              {removes(kvstore.Key("h", first)), "which is not there"},
		"another's child": {func(t *testing.T, kv kvstore.Store) {
			replace(t, kv, kvstore.Key("h", first), `"call":"c1"`, `"call":"c9"`)
		}, "which is not its child"},
		"an errand that no worker finds": {func(t *testing.T, kv kvstore.Store) {
			st := load(t, session.NewStore(kv, nil), second)
			replace(t, kv, kvstore.Key("h", second), `"wake":"`+st.Wake.Format(time.RFC3339Nano)+`",`, "")
		}, "stands nowhere in the wake index"},
	} {
		t.Run(name, func(t *testing.T) {
			_, kv := withChildren(t)
			problems(t, session.NewStore(kv, nil))
			damage.do(t, kv)
			var all []string
			for p, err := range session.NewStore(kv, nil).Check(t.Context()) {
				must(t, err)
				all = append(all, p.What)
			}
			if !strings.Contains(strings.Join(all, "\n"), damage.want) {
				t.Errorf("it reports %q, and not that %s", all, damage.want)
			}
		})
	}
}

func removes(key []byte) func(*testing.T, kvstore.Store) {
	return func(t *testing.T, kv kvstore.Store) {
		_, err := kv.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{key}})
		must(t, err)
	}
}

func adds(key []byte) func(*testing.T, kvstore.Store) {
	return func(t *testing.T, kv kvstore.Store) {
		_, err := kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key}}})
		must(t, err)
	}
}

// A tombstone stays until what it owes is carried out, however old it is, and
// no child outlives its parent's retention.
func TestATombstoneStaysUntilItsChildrenAreTold(t *testing.T) {
	kv := &unscanned{Store: kvstore.NewMemory(), failing: true}
	now := time.Now()
	p := newParent(t, kv, "c1")
	p.do(spawns(t, "c1", session.Left{}))
	p.do(func(tx *session.Tx) error { tx.End(event.FinishCancelled, "ada", ""); return nil })
	must(t, p.store.Delete(t.Context(), "top", "ada"))
	p.lease.Release()
	later := session.NewStore(kv, &session.Options{Now: func() time.Time {
		return now.Add(1000 * 24 * time.Hour)
	}})
	if _, err := later.Sweep(t.Context(), nil); !errors.Is(err, errScan) {
		t.Errorf("it is swept, with %v", err)
	}
	if st := load(t, later, "top"); len(st.Outbox) != 1 {
		t.Fatalf("the tombstone owes %v", st.Outbox)
	}
	kv.failing = false
	_, err := later.Sweep(t.Context(), nil)
	must(t, err)
	if st := load(t, later, childOf("c1")); st.Deleted.IsZero() {
		t.Error("the child is left behind")
	}
	for range 2 {
		now = now.Add(1000 * 24 * time.Hour)
		_, err = later.Sweep(t.Context(), nil)
		must(t, err)
	}
	page, err := kv.Scan(t.Context(), kvstore.Range{Limit: 100})
	must(t, err)
	for _, e := range page.Entries {
		if parts, _ := kvstore.Parts(e.Key); parts[0] != "s" && parts[0] != "t" {
			t.Errorf("%q is left", parts)
		}
	}
}

var errScan = errors.New("no scan of children")

// unscanned is an engine that doesn't list children while it is failing.
type unscanned struct {
	kvstore.Store
	failing bool
}

func (u *unscanned) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if u.failing && bytes.HasPrefix(r.Prefix, kvstore.Key("f")) {
		return kvstore.Page{}, errScan
	}
	return u.Store.Scan(ctx, r)
}

// A session that is over goes with its retention, and its children go with it,
// also one that stopped later.
func TestNoStoppedChildOutlivesItsParent(t *testing.T) {
	kv := kvstore.NewMemory()
	now := time.Now()
	clock := func() time.Time { return now }
	p := newParent(t, kv, "c1")
	p.store = session.NewStore(kv, &session.Options{Now: clock})
	p.do(spawns(t, "c1", session.Left{}))
	must(t, p.store.Update(t.Context(), "top", cancels("c1")))
	p.refresh()
	p.do(func(tx *session.Tx) error { tx.End(event.FinishCancelled, "ada", ""); return nil })
	p.do(func(tx *session.Tx) error {
		return tx.Close(entry(t, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{
			Call: "c1", Output: []byte(`"no"`)}}}), []event.Status{event.Cancelled})
	})
	p.lease.Release()
	p.ends("top")
	now = now.Add(20 * 24 * time.Hour)
	p.ends(childOf("c1"))
	must(t, p.store.Update(t.Context(), childOf("c1"), func(tx *session.Tx) error {
		tx.Halt.At = now // it stopped just now
		return nil
	}))
	now = now.Add(20 * 24 * time.Hour)
	_, err := p.store.Sweep(t.Context(), &session.Retention{Sessions: 30 * 24 * time.Hour})
	must(t, err)
	for _, id := range []string{"top", childOf("c1")} {
		if st := load(t, p.store, id); st.Deleted.IsZero() || len(st.Outbox) > 0 {
			t.Errorf("%s is left: %+v", id, st)
		}
	}
	problems(t, p.store)
}

// A head that has, or is, a child is refused by programs that know versions up
// to 2 alone, and one that never had any is not.
func TestOlderProgramsRefuseFamilies(t *testing.T) {
	p, kv := withChildren(t)
	for id, want := range map[string]string{"top": `{"v":3,`, childOf("c1"): `{"v":3,`} {
		e, err := kv.Get(t.Context(), kvstore.Key("h", id))
		must(t, err)
		if !bytes.HasPrefix(e.Value, []byte(want)) {
			t.Errorf("%s has %.20s", id, e.Value)
		}
	}
	p.lease.Release()
	plain := newParent(t, kvstore.NewMemory(), "c1")
	if st := load(t, plain.store, "top"); st.Version != 1 {
		t.Errorf("without children it has version %d", st.Version)
	}
}
