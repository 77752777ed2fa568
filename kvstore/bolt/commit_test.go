package bolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(key, value string) kvstore.Batch {
	return kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte(value)}}}
}

func putAt(key, value string, r kvstore.Revision) kvstore.Batch {
	b := put(key, value)
	b.Preconditions = []kvstore.Precondition{{Key: []byte(key), Revision: r}}
	return b
}

func has(t *testing.T, s *Store, key, value string) {
	t.Helper()
	if e, err := s.Get(context.Background(), []byte(key)); err != nil || string(e.Value) != value {
		t.Errorf("Get(%s) = %q, %v; want %q", key, e.Value, err, value)
	}
}

func lacks(t *testing.T, s *Store, key string) {
	t.Helper()
	if e, err := s.Get(context.Background(), []byte(key)); !errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("Get(%s) = %q, %v; want ErrNotFound", key, e.Value, err)
	}
}

// gate holds back a store's commits: each takes one token.
type gate struct {
	tokens  chan struct{}
	commits int
}

func hold(s *Store) *gate {
	g := &gate{tokens: make(chan struct{}, 100)}
	update := s.update
	s.update = func(f func(*bbolt.Tx) error) error {
		<-g.tokens
		g.commits++
		return update(f)
	}
	return g
}

func (g *gate) pass(n int) {
	for range n {
		g.tokens <- struct{}{}
	}
}

// answer is what one Apply returned; it hasn't yet while done is false.
type answer struct {
	revision kvstore.Revision
	err      error
	done     bool
}

// apply starts an Apply, and returns when it waits for something.
func apply(ctx context.Context, s *Store, b kvstore.Batch) *answer {
	a := &answer{}
	go func() {
		a.revision, a.err = s.Apply(ctx, b)
		a.done = true
	}()
	synctest.Wait()
	return a
}

func TestGroupSharesOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g := hold(s)
		ctx := t.Context()
		first := apply(ctx, s, put("a", "1"))
		var rest []*answer
		for i := range 5 {
			rest = append(rest, apply(ctx, s, put(fmt.Sprint("k", i), "v")))
		}
		wins := apply(ctx, s, putAt("b", "first", 0))
		loses := apply(ctx, s, putAt("b", "second", 0))
		removes := apply(ctx, s, kvstore.Batch{Deletes: [][]byte{[]byte("k3")}})
		sees := apply(ctx, s, putAt("k3", "again", 0)) // the delete before it in the group
		reads := apply(ctx, s, kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: []byte("nothing")}}})
		if first.done || wins.done {
			t.Fatal("answered before the commit")
		}
		g.pass(2)
		synctest.Wait()
		if g.commits != 2 {
			t.Errorf("%d commits, want 2: the first writer's, and one for all who came meanwhile", g.commits)
		}
		last := first.revision
		for i, a := range append(rest, wins, sees) {
			if !a.done || a.err != nil || a.revision <= last {
				t.Errorf("batch %d of the group: %+v, after revision %d", i, *a, last)
			}
			last = a.revision
		}
		if !loses.done || !errors.Is(loses.err, kvstore.ErrConflict) {
			t.Errorf("the second to create b: %v", loses.err)
		}
		if !removes.done || removes.err != nil || !reads.done || reads.err != nil {
			t.Errorf("delete: %v, check: %v", removes.err, reads.err)
		}
		has(t, s, "b", "first")
		has(t, s, "k3", "again")
	})
}

// TestGroupIsBounded has more wait than one group takes.
func TestGroupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g := hold(s)
		first := apply(t.Context(), s, put("a", "1"))
		large := kvstore.Batch{}
		for i := range 7 {
			large.Puts = append(large.Puts, kvstore.Put{Key: fmt.Append(nil, i), Value: make([]byte, kvstore.MaxValue)})
		}
		var all []*answer
		for range maxGroupSize/large.Size() + 3 {
			all = append(all, apply(t.Context(), s, large))
		}
		g.pass(100)
		synctest.Wait()
		if g.commits != 3 {
			t.Errorf("%d commits, want 3", g.commits)
		}
		for i, a := range append(all, first) {
			if !a.done || a.err != nil {
				t.Errorf("batch %d: %+v", i, *a)
			}
		}
	})
}

// TestContextEndsWhileQueued: the batch is withdrawn, for certain.
func TestContextEndsWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g := hold(s)
		first := apply(t.Context(), s, put("a", "1"))
		ctx, cancel := context.WithCancel(t.Context())
		second := apply(ctx, s, put("b", "1")) // next to lead
		third := apply(t.Context(), s, put("c", "1"))
		cancel()
		synctest.Wait()
		if !second.done || !errors.Is(second.err, context.Canceled) || errors.Is(second.err, kvstore.ErrUncertain) {
			t.Fatalf("withdrawn: %+v", *second)
		}
		g.pass(2)
		synctest.Wait()
		if !first.done || first.err != nil || !third.done || third.err != nil {
			t.Errorf("the others: %+v, %+v", *first, *third)
		}
		lacks(t, s, "b")
		has(t, s, "c", "1")
	})
}

// TestContextEndsDuringCommit: a follower is told that it can't be known, and
// its batch comes through; the leader stays.
func TestContextEndsDuringCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g := hold(s)
		first := apply(t.Context(), s, put("a", "1"))
		ctx, cancel := context.WithCancel(t.Context())
		leads := apply(ctx, s, put("b", "1"))
		follows := apply(ctx, s, put("c", "1"))
		g.pass(1) // now b leads b and c
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !first.done || leads.done {
			t.Fatalf("first %+v, leader %+v", *first, *leads)
		}
		if !follows.done || !errors.Is(follows.err, kvstore.ErrUncertain) || !errors.Is(follows.err, context.Canceled) {
			t.Fatalf("follower: %+v", *follows)
		}
		g.pass(1)
		synctest.Wait()
		if !leads.done || leads.err != nil {
			t.Errorf("leader: %+v", *leads)
		}
		has(t, s, "b", "1")
		has(t, s, "c", "1")
	})
}

// TestLeadPassesOverTheWithdrawn: no caller is left waiting for a leader who has
// gone.
func TestLeadPassesOverTheWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g := hold(s)
		ctx, cancel := context.WithCancel(t.Context())
		first := apply(t.Context(), s, put("a", "1"))
		for i := range 3 {
			apply(ctx, s, put(fmt.Sprint("gone", i), "1"))
		}
		cancel()
		synctest.Wait()
		g.pass(1)
		synctest.Wait()
		if !first.done || s.queue.led {
			t.Fatal("a queue of withdrawn requests is led")
		}
		g.pass(1)
		if after := apply(t.Context(), s, put("b", "1")); !after.done || after.err != nil {
			t.Errorf("afterwards: %+v", *after)
		}
	})
}

func TestCloseWaitsForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g := hold(s)
		first, second := apply(t.Context(), s, put("a", "1")), apply(t.Context(), s, put("b", "1"))
		closed := false
		go func() {
			s.Close()
			closed = true
		}()
		synctest.Wait()
		late := apply(t.Context(), s, put("c", "1"))
		if !late.done || !errors.Is(late.err, kvstore.ErrClosed) {
			t.Errorf("Apply after Close: %+v", *late)
		}
		if closed {
			t.Fatal("Close didn't wait")
		}
		g.pass(2)
		synctest.Wait()
		if !closed || first.err != nil || second.err != nil {
			t.Errorf("closed: %v, %v, %v", closed, first.err, second.err)
		}
	})
}

// TestLeaderCantLeave: whose turn it has become to lead stays, whatever its
// context says; the queue waits for it.
func TestLeaderCantLeave(t *testing.T) {
	r := newRequest(put("a", "1"))
	r.state.Store(leading)
	if err := r.leave(context.Canceled); err != nil {
		t.Errorf("it has left: %v", err)
	}
}
