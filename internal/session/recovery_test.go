package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
)

// says has a session say something, so that the model's answer is due.
func says(t *testing.T) session.Transition {
	return func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
	}
}

// hold has a drive hold a session that has work.
func hold(t *testing.T, s *session.Store, id string) *session.Lease {
	t.Helper()
	d, err := s.Acquire(t.Context(), id, &session.New{User: "ada", Agent: "ops"})
	must(t, err)
	must(t, d.Update(t.Context(), says(t)))
	return d
}

// due and left list what a worker of the agent finds.
func due(t *testing.T, s *session.Store) (ids []string) {
	t.Helper()
	found, _, _, err := s.Due(t.Context(), "ops", nil)
	must(t, err)
	for _, d := range found {
		ids = append(ids, d.Session)
	}
	return ids
}

func left(t *testing.T, s *session.Store) (ids []string) {
	t.Helper()
	for after := ""; ; {
		found, more, err := s.Left(t.Context(), "ops", after)
		must(t, err)
		for _, d := range found {
			ids = append(ids, d.Session)
			after = d.Session
		}
		if !more {
			return ids
		}
	}
}

// finds fails the test unless a worker finds these sessions, and no others.
func finds(t *testing.T, s *session.Store, when string, wantDue, wantLeft []string) {
	t.Helper()
	if got := due(t, s); !slices.Equal(got, wantDue) {
		t.Errorf("%s: due are %q, want %q", when, got, wantDue)
	}
	if got := left(t, s); !slices.Equal(got, wantLeft) {
		t.Errorf("%s: left are %q, want %q", when, got, wantLeft)
	}
}

// indexed fails the test unless so many sessions stand in the indexes of a
// store.
func indexed(t *testing.T, kv kvstore.Store, want int) {
	t.Helper()
	n := 0
	for _, kind := range []string{"l", "v", "w"} {
		n += len(values(t, kv, kind))
	}
	if n != want {
		t.Errorf("%d sessions stand in the indexes, want %d", n, want)
	}
}

// over ends the run of a session that is driven.
func over(tx *session.Tx) error { tx.Stop("stop", ""); return nil }

// TestHeldSessionsAreNotDue: where one process has the engine. The entry of the
// recovery index is written once, however often the drive commits, and goes
// with the commit that gives the session up.
func TestHeldSessionsAreNotDue(t *testing.T) {
	m := kvstore.NewMemory()
	writes := 0
	s := session.NewStore(&looked{Exclusive: m, apply: func(b kvstore.Batch) {
		for _, p := range b.Puts {
			if strings.HasPrefix(string(p.Key), "l\x00") {
				writes++
			}
		}
	}}, nil)
	d := hold(t, s, "s")
	for range 5 {
		must(t, d.Update(t.Context(), says(t)))
		must(t, s.Update(t.Context(), "s", func(tx *session.Tx) error { tx.EndInOrder(); return nil }))
	}
	finds(t, s, "held", nil, nil)
	if n := len(values(t, m, "l")); writes != 1 || n != 1 {
		t.Errorf("%d writes of entries, of which %d are stored", writes, n)
	}
	wellIndexed(t, s)
	must(t, d.GiveUp(t.Context()))
	finds(t, s, "given up with work", []string{"s"}, nil)
	d, err := s.Acquire(t.Context(), "s", nil)
	must(t, err)
	finds(t, s, "taken, and nothing committed", []string{"s"}, nil)
	if !s.HeldHere("s") {
		t.Error("workers are not told that a drive has it")
	}
	must(t, d.Update(t.Context(), says(t)))
	finds(t, s, "taken", nil, nil)
	must(t, d.Update(t.Context(), over))
	must(t, d.Rest(t.Context()))
	d.Release()
	finds(t, s, "over", nil, nil)
	indexed(t, m, 0)
	wellIndexed(t, s)
}

// TestASessionThatWasPassedOver: a worker that passes a session over, since a
// drive has it, is woken when that drive ends, though nothing is committed then.
func TestASessionThatWasPassedOver(t *testing.T) {
	s := session.NewStore(kvstore.NewMemory(), nil)
	d := hold(t, s, "s")
	must(t, d.Update(t.Context(), over))
	must(t, d.Rest(t.Context())) // which tells the workers, while the drive goes on
	changed, stop := s.WatchWork()
	defer stop()
	if !s.HeldHere("s") {
		t.Fatal("no drive has it")
	}
	d.Release()
	select {
	case <-changed:
	default:
		t.Error("the workers are not told that the drive has ended")
	}
	if s.HeldHere("s") {
		t.Error("a drive has it still")
	}
}

// TestRecoveryIndexIsReadOnce: all that dead drives held is found by whichever
// store asks, until a drive gives it up. The index is read once for the engine's
// value, and what other incarnations have left in it is gone after that.
func TestRecoveryIndexIsReadOnce(t *testing.T) {
	m := kvstore.NewMemory()
	var want []string
	for i := range 3 {
		s := session.NewStore(m, nil)
		hold(t, s, fmt.Sprint("dead-", i)) // and its process dies
		want = append(want, fmt.Sprint("dead-", i))
		m = m.Reopen()
	}
	scans := 0
	kv := &looked{Exclusive: m, scan: func(r kvstore.Range) {
		if strings.HasPrefix(string(r.Prefix), "l\x00") {
			scans++
		}
	}}
	s, other := session.NewStore(kv, nil), session.NewStore(kv, nil)
	live := hold(t, s, "live")
	for range 3 {
		finds(t, s, "after the crashes", nil, want)
		finds(t, other, "by another store", nil, want)
	}
	d, err := s.Acquire(t.Context(), "dead-1", nil)
	must(t, err)
	must(t, d.GiveUp(t.Context())) // it has done nothing
	finds(t, other, "looked at", nil, want)
	for _, id := range want {
		d, err := other.Acquire(t.Context(), id, nil)
		must(t, err)
		if !d.Heir() {
			t.Errorf("the drive of %s doesn't know that one died", id)
		}
		must(t, d.Update(t.Context(), over))
		must(t, d.GiveUp(t.Context()))
	}
	finds(t, s, "taken over", nil, nil)
	if n := len(values(t, m, "l")); scans != 1 || n != 1 {
		t.Errorf("the index was read %d times, and has %d entries", scans, n)
	}
	live.Release()
	wellIndexed(t, s)
}

// looked is an engine with hooks, each of which may be nil.
type looked struct {
	kvstore.Exclusive
	scan  func(kvstore.Range)
	apply func(kvstore.Batch)
}

func (e *looked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if e.scan != nil {
		e.scan(r)
	}
	return e.Exclusive.Scan(ctx, r)
}

func (e *looked) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if e.apply != nil {
		e.apply(b)
	}
	return e.Exclusive.Apply(ctx, b)
}

// TestIndexThatCannotBeRead: it is read as soon as it can be.
func TestIndexThatCannotBeRead(t *testing.T) {
	m := kvstore.NewMemory()
	hold(t, session.NewStore(m, nil), "dead")
	m = m.Reopen()
	f := faultkv.New(m)
	s := session.NewStore(f.Store, nil)
	f.Kill()
	if _, _, err := s.Left(t.Context(), "ops", ""); err == nil {
		t.Error("no error")
	}
	finds(t, session.NewStore(m, nil), "later", nil, []string{"dead"})
}

// TestStrayRecoveryEntries: a program from before there was the recovery index
// has ended a session and left its entry. Check reports it, a sweep removes it,
// and a worker that finds it first does so, too.
func TestStrayRecoveryEntries(t *testing.T) {
	m := kvstore.NewMemory()
	s := session.NewStore(m, nil)
	hold(t, s, "gone")
	head := kvstore.Key("h", "gone")
	if _, err := m.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{head}}); err != nil {
		t.Fatal(err)
	}
	live := hold(t, s, "live")
	defer live.Release()
	m = m.Reopen()
	s = session.NewStore(m, nil)
	problems := 0
	for p, err := range s.Check(t.Context()) {
		must(t, err)
		if p.Session != "gone" || !strings.Contains(p.What, "recovery index") {
			t.Error(p)
		}
		problems++
	}
	if problems != 1 {
		t.Errorf("%d problems", problems)
	}
	swept, err := s.Sweep(t.Context(), nil)
	must(t, err)
	if swept.Entries != 1 {
		t.Errorf("swept are %+v", swept)
	}
	wellIndexed(t, s)
	finds(t, s, "swept", nil, []string{"live"})
}

// TestHeldByAnOlderVersion: such a session stands in the wake index, and is
// found there. A commit of this version's drive moves it.
func TestHeldByAnOlderVersion(t *testing.T) {
	m := kvstore.NewMemory()
	s := session.NewStore(m, nil)
	hold(t, s, "s")
	e, err := m.Get(t.Context(), kvstore.Key("h", "s"))
	must(t, err)
	was := strings.Replace(string(e.Value), `"recovery":1`, `"wake":"1970-01-01T00:00:05Z"`, 1)
	_, err = m.Apply(t.Context(), kvstore.Batch{
		Puts: []kvstore.Put{{Key: e.Key, Value: []byte(was)},
			{Key: kvstore.Key("w", "ops", "00000000005000", "s")}},
		Deletes: [][]byte{kvstore.Key("l", "ops", "00000000000000000001", "s")},
	})
	must(t, err)
	m = m.Reopen()
	s = session.NewStore(m, nil)
	finds(t, s, "by this version", []string{"s"}, nil)
	d, err := s.Acquire(t.Context(), "s", nil)
	must(t, err)
	if !d.Heir() {
		t.Error("the drive doesn't know that one died")
	}
	if _, err := d.Secure(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, s, "taken over", nil, nil)
	must(t, d.Update(t.Context(), over))
	must(t, d.GiveUp(t.Context()))
	finds(t, s, "over", nil, nil)
	wellIndexed(t, s)
}

// TestMovedToASharedEngine: what a drive held on an engine of one process is
// found where several processes share the engine.
func TestMovedToASharedEngine(t *testing.T) {
	m := kvstore.NewMemory()
	hold(t, session.NewStore(m, nil), "s")
	m = m.Reopen()
	s := session.NewStore(shared(m), nil)
	finds(t, s, "moved", nil, []string{"s"})
	d, err := s.Acquire(t.Context(), "s", nil)
	must(t, err)
	must(t, d.Update(t.Context(), over))
	must(t, d.GiveUp(t.Context()))
	finds(t, s, "over", nil, nil)
	indexed(t, m, 0)
	wellIndexed(t, s)
}
