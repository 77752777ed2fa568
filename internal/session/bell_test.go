package session

import (
	"context"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// Another process's commit rings the bell of the process whose drive holds the
// session. The entry goes with the holder's next commit, when it gives the
// session up, when another drive takes the session over, and when the session
// is deleted. Commits of the holder's own process ring nothing.
func TestWhoRingsABell(t *testing.T) {
	engine := struct{ kvstore.Store }{kvstore.NewMemory()}
	clock := time.Now()
	o := &Options{Now: func() time.Time { return clock }, MaxSkew: time.Millisecond}
	holder, other := NewStore(engine, o), NewStore(engine, o)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rung := func(at *Store, want int) {
		t.Helper()
		n := 0
		for _, err := range at.scan(ctx, kvstore.Key("B", at.bell.id)) {
			must(err)
			n++
		}
		if n != want {
			t.Errorf("there are %d entries, not %d", n, want)
		}
		for problem, err := range other.Check(ctx) {
			must(err)
			t.Error(problem)
		}
	}
	entry, err := NewEntry(llm.UserText("Go."))
	must(err)
	say := func(tx *Tx) error { return tx.Say(entry, "", "", false) }
	takes := func(s *Store) *Lease {
		t.Helper()
		d, err := s.Acquire(context.Background(), "s", &New{User: "ada"})
		must(err)
		must(d.Update(ctx, say))
		return d
	}
	d := takes(holder)
	rung(holder, 0)
	must(holder.Update(ctx, "s", touch))
	rung(holder, 0)
	must(other.Update(ctx, "s", touch))
	must(other.Update(ctx, "s", touch))
	rung(holder, 1)
	must(d.Update(ctx, touch))
	rung(holder, 0)
	must(other.Update(ctx, "s", touch))
	rung(holder, 1)
	must(d.GiveUp(ctx))
	rung(holder, 0)
	must(other.Update(ctx, "s", touch))
	rung(holder, 0)

	takes(holder).Abandon() // its process dies
	must(other.Update(ctx, "s", touch))
	rung(holder, 1)
	clock = clock.Add(time.Hour)
	d = takes(other)
	rung(holder, 0)
	must(holder.Update(ctx, "s", touch))
	rung(other, 1)
	must(holder.Delete(ctx, "s", "ada"))
	rung(other, 0)
	d.Abandon()
}
