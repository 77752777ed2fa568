package kvtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// reopen makes sure that a restart changes nothing.
func reopen(t *testing.T, c Config) {
	if c.Reopen == nil {
		t.Skip("this engine can't be opened again")
	}
	s := open(t, c)
	var want []kvstore.Entry
	for i := range 30 {
		key, value := fmt.Sprintf("k%02d", i), fmt.Sprint("v", i)
		r := s.put(key, value)
		if i%3 == 0 {
			s.delete(key)
		} else {
			want = append(want, kvstore.Entry{Key: []byte(key), Value: []byte(value), Revision: r})
		}
	}
	for range 2 {
		s.kv.Close()
		s.kv = c.Reopen(t, s.kv)
		got := s.scan(kvstore.Range{}, nil)
		same := func(a, b kvstore.Entry) bool {
			return string(a.Key) == string(b.Key) && string(a.Value) == string(b.Value) &&
				a.Revision == b.Revision
		}
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("after a restart: %d entries, want %d, or not the same", len(got), len(want))
		}
		for _, e := range want {
			s.has(string(e.Key), string(e.Value), e.Revision)
		}
		s.lacks("k00")
	}
	last := want[len(want)-1]
	// Revisions hold across the restart as preconditions too.
	s.put("k99", "x", at(string(last.Key), last.Revision))
	s.kv.Close()
}

// exclusive makes sure of an engine that says it is one.
func exclusive(t *testing.T, c Config) {
	s := open(t, c)
	e, ok := s.kv.(kvstore.Exclusive)
	if !ok {
		t.Skip("this engine isn't exclusive")
	}
	local := e.Local()
	if local == nil || local != e.Local() {
		t.Fatal("Local isn't always the same")
	}
	if !local.Acquire("session", "drive 1") {
		t.Fatal("the lease of a new store is taken")
	}
	local.Enlist("list", "session")
	if c.Reopen == nil {
		return
	}
	was := e.Incarnation()
	for range 2 {
		s.kv.Close()
		s.kv = c.Reopen(t, s.kv)
		e = s.kv.(kvstore.Exclusive)
		if now := e.Incarnation(); now <= was {
			t.Errorf("incarnation %d after %d", now, was)
		}
		was = e.Incarnation()
		if e.Local() == local || e.Local().Holder("session") != "" {
			t.Error("a lease outlived a restart")
		}
		if e.Local().IsListed("list", "session") {
			t.Error("a list outlived a restart")
		}
	}
	s.kv.Close()
}

func local(t *testing.T, c Config) *kvstore.Local {
	s := open(t, c)
	e, ok := s.kv.(kvstore.Exclusive)
	if !ok {
		t.Skip("this engine isn't exclusive")
	}
	return e.Local()
}

func leases(t *testing.T, c Config) {
	l := local(t, c)
	is := func(got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	is(l.Holder("a"), "")
	is(l.Acquire("a", "x"), true)
	is(l.Acquire("a", "x"), true)
	is(l.Acquire("a", "y"), false)
	is(l.Acquire("b", "y"), true)
	is(l.Holder("a"), "x")
	l.Release("a", "y") // isn't y's to give up
	is(l.Holder("a"), "x")
	l.Release("a", "x")
	is(l.Holder("a"), "")
	is(l.Acquire("a", "y"), true)
	is(l.Holder("b"), "y")
}

func lists(t *testing.T, c Config) {
	l := local(t, c)
	is := func(after string, limit int, want ...string) {
		t.Helper()
		if got := l.Listed("a", after, limit); !slices.Equal(got, want) {
			t.Errorf("after %q are %q, want %q", after, got, want)
		}
	}
	is("", 9)
	l.Strike("a", "x") // it isn't there
	for _, name := range []string{"y", "x", "z", "x"} {
		l.Enlist("a", name)
	}
	l.Enlist("b", "w")
	is("", 9, "x", "y", "z")
	is("", 2, "x", "y")
	is("x", 9, "y", "z")
	is("xx", 1, "y")
	is("z", 9)
	got := l.Listed("a", "", 9)
	l.Strike("a", "y")
	if !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Errorf("what was handed out has changed to %q", got)
	}
	is("", 9, "x", "z")
	if !l.IsListed("a", "z") || l.IsListed("a", "y") || l.IsListed("a", "w") {
		t.Error("a name is on the wrong list")
	}
	l.Strike("a", "x")
	l.Strike("a", "z")
	is("", 9)
	if !l.IsListed("b", "w") {
		t.Error("another list has lost a name")
	}
}

func signals(t *testing.T, c Config) {
	l := local(t, c)
	woken := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	l.Signal("a") // no listener
	one, stopOne := l.Watch("a")
	two, stopTwo := l.Watch("a")
	other, stopOther := l.Watch("b")
	defer stopOther()
	if woken(one) {
		t.Error("a signal from before the watch")
	}
	for range 3 {
		l.Signal("a") // no listener reads: it must not block
	}
	if !woken(one) || !woken(two) || woken(other) {
		t.Error("a signal went the wrong way")
	}
	if woken(one) {
		t.Error("signals that nobody waited for in between became more than one")
	}
	stopOne()
	l.Signal("a")
	if woken(one) || !woken(two) {
		t.Error("stop ended nothing, or too much")
	}
	stopTwo()
	stopTwo() // once more is nothing
	l.Signal("a")
	if woken(two) {
		t.Error("a signal after stop")
	}
}
