package kvtest

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

func writeAndRead(t *testing.T, c Config) {
	s := open(t, c)
	s.lacks("a", "b")
	r := s.apply(kvstore.Batch{Puts: []kvstore.Put{put("a", "1"), put("b", ""),
		put("\x00\xff", "\x00\xff")}})
	s.has("a", "1", r)
	s.has("b", "", r)
	s.has("\x00\xff", "\x00\xff", r)
	s.lacks("\x00", "aa", "A", "", strings.Repeat("k", 4*kvstore.MaxKey))

	longer := s.put("a", strings.Repeat("x", 5000))
	s.has("a", strings.Repeat("x", 5000), longer)
	shorter := s.put("a", "y")
	s.has("a", "y", shorter)
	s.has("b", "", r)

	s.delete("a", "never was")
	s.lacks("a", "never was")
	again := s.put("a", "2")
	s.has("a", "2", again)

	both := s.apply(kvstore.Batch{Puts: []kvstore.Put{put("c", "3")},
		Deletes: [][]byte{[]byte("a")}})
	s.has("c", "3", both)
	s.lacks("a")
}

func emptyBatch(t *testing.T, c Config) {
	s := open(t, c)
	r := s.put("a", "1")
	for name, b := range map[string]kvstore.Batch{
		"nothing":        {},
		"a precondition": {Preconditions: []kvstore.Precondition{at("a", r), absent("b")}},
		"a delete":       {Deletes: [][]byte{[]byte("b")}},
	} {
		if got := s.apply(b); got != 0 {
			t.Errorf("a batch of %s has revision %d, want none: it puts nothing", name, got)
		}
	}
	s.has("a", "1", r)
}

// copies makes sure that neither side sees what the other does to its slices
// later.
func copies(t *testing.T, c Config) {
	s := open(t, c)
	key, value := []byte("key"), []byte("value")
	r := s.apply(kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: key}},
		Puts: []kvstore.Put{{Key: key, Value: value}}})
	copy(key, "yek")
	copy(value, "eulav")
	s.has("key", "value", r)

	e, err := s.kv.Get(t.Context(), []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if e.Key = append(e.Key, '!'); string(e.Value) != "value" {
		t.Errorf("an append to an entry's key changed its value to %q", e.Value)
	}
	scribble(&e)
	s.has("key", "value", r)

	s.put("kez", "neighbour")
	p := s.page(kvstore.Range{Prefix: []byte("ke")})
	for i := range p.Entries {
		scribble(&p.Entries[i])
	}
	s.has("key", "value", r)
	if got := s.keys(kvstore.Range{}); len(got) != 2 || got[0] != "key" || got[1] != "kez" {
		t.Errorf("keys after a page was scribbled over: %q", got)
	}

	before, err := s.kv.Get(t.Context(), []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	s.put("key", "VALUE")
	if string(before.Value) != "value" {
		t.Errorf("a later write changed an entry that was read before: %q", before.Value)
	}
}

// scribble changes an entry's bytes.
func scribble(e *kvstore.Entry) {
	for _, b := range [][]byte{e.Key, e.Value} {
		for i := range b {
			b[i] ^= 0xff
		}
	}
}

func preconditions(t *testing.T, c Config) {
	s := open(t, c)
	first := s.put("a", "1", absent("a"), absent("elsewhere"))
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{absent("a")},
		Puts: []kvstore.Put{put("a", "2")}})
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{at("b",
		first)}, Puts: []kvstore.Put{put("b", "2")}})
	second := s.put("a", "2", at("a", first))
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{at("a",
		first)}, Puts: []kvstore.Put{put("a", "3")}})

	// On keys that the batch doesn't write.
	other := s.put("b", "1", at("a", second))
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{at("a",
		first)}, Puts: []kvstore.Put{put("b", "2")}})
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{at("a",
		first)}})
	s.apply(kvstore.Batch{Preconditions: []kvstore.Precondition{at("a", second), at("b", other),
		absent("c")}})

	// On a delete; and a key that was deleted is absent.
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{at("a",
		first)}, Deletes: [][]byte{[]byte("a")}})
	s.apply(kvstore.Batch{Preconditions: []kvstore.Precondition{at("a", second)},
		Deletes: [][]byte{[]byte("a")}})
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{at("a",
		second)}, Puts: []kvstore.Put{put("a", "3")}})
	third := s.put("a", "3", absent("a"))
	s.has("a", "3", third)
	s.has("b", "1", other)
}

func conflictLeavesNothing(t *testing.T, c Config) {
	s := open(t, c)
	kept, gone := s.put("kept", "1"), s.put("gone", "1")
	s.refused(kvstore.ErrConflict, kvstore.Batch{
		Preconditions: []kvstore.Precondition{at("kept", kept), absent("new"),
			at("gone", gone+1000)},
		Puts:    []kvstore.Put{put("kept", "2"), put("new", "2")},
		Deletes: [][]byte{[]byte("gone")},
	})
	s.has("kept", "1", kept)
	s.has("gone", "1", gone)
	s.lacks("new")
}

// revisions makes sure that no revision comes twice, whatever happens in
// between, and that later ones are greater.
func revisions(t *testing.T, c Config) {
	s := open(t, c)
	var last kvstore.Revision
	grows := func() {
		t.Helper()
		r := s.put("a", "x")
		if r <= last {
			t.Fatalf("revision %d after %d", r, last)
		}
		last = r
	}
	restart := func() {
		if c.Reopen != nil {
			s.kv.Close()
			s.kv = c.Reopen(t, s.kv)
			t.Cleanup(func(kv kvstore.Store) func() { return func() { kv.Close() } }(s.kv))
		}
	}
	grows()
	grows()
	s.delete("a")
	grows()
	if r := s.put("b", "x"); r <= last {
		t.Fatalf("another key's revision %d after %d", r, last)
	} else {
		last = r
	}
	s.refused(kvstore.ErrConflict, kvstore.Batch{Preconditions: []kvstore.Precondition{absent("b")},
		Puts: []kvstore.Put{put("b", "y")}})
	grows()
	restart()
	grows()
	s.delete("a", "b") // nothing is left that could remember
	restart()
	grows()
}
