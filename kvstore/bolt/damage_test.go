package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
)

const entries = 40

func keyOf(i int) string   { return fmt.Sprintf("key-%03d", i) }
func valueOf(i int) string { return fmt.Sprintf("<%03d>", i) + strings.Repeat("v", 1000) }

// filled returns the path of a closed store of many pages. It is filled once,
// and copied.
func filled(t *testing.T) string {
	t.Helper()
	fill.Do(func() { fillStore(t) })
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, filledStore, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	fill        sync.Once
	filledStore []byte
)

func fillStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	for i := 0; i < entries; i += 10 {
		var b kvstore.Batch
		for j := i; j < i+10; j++ {
			b.Puts = append(b.Puts, put(keyOf(j), valueOf(j)).Puts...)
		}
		apply(t, s, b)
	}
	s.Close()
	var err error
	if filledStore, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}

// edit changes the bytes of a file in place.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now := change(bytes.Clone(was))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(now, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(now))); err != nil {
		t.Fatal(err)
	}
}

// useable opens a damaged store, reads all of it, writes it anew from many
// callers at once, and makes sure that each answer is right or an ErrCorrupt.
func useable(t *testing.T, path string) (damaged int) {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err != nil {
		corrupt(t, path, err)
		return entries
	}
	defer s.Close()
	var writers sync.WaitGroup
	for i := range entries {
		e, err := s.Get(t.Context(), []byte(keyOf(i)))
		if err == nil && string(e.Value) != valueOf(i) {
			t.Errorf("Get(%s) = %q", keyOf(i), e.Value)
		} else if err != nil {
			corrupt(t, path, err)
			damaged++
		}
		writers.Go(func() {
			b := put(keyOf(i), valueOf(i))
			b.Preconditions = []kvstore.Precondition{{Key: []byte(keyOf(i)), Revision: e.Revision}}
			_, err := s.Apply(t.Context(), b)
			if err != nil {
				corrupt(t, path, err)
			}
			if wasThere := e.Revision > 0; wasThere != (err == nil) {
				t.Errorf("read %s at %d, written: %v", keyOf(i), e.Revision, err)
			}
		})
	}
	writers.Wait()
	return damaged
}

// pagesOf returns how many pages of a file bbolt has used; the file may be
// longer.
func pagesOf(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.View(func(tx *bbolt.Tx) error {
		n = int(tx.Size()) / db.Info().PageSize
		return nil
	})
	return n
}

func corrupt(t *testing.T, path string, err error) {
	t.Helper()
	var c *kvstore.CorruptError
	if !errors.Is(err, kvstore.ErrCorrupt) || !errors.As(err, &c) || c.Store != path || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want a CorruptError with the path", err)
	}
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	zero := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte {
			clear(b[from*page : to*page])
			return b
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"cut in half":      func(b []byte) []byte { return b[:len(b)/2] },
		"cut to a page":    func(b []byte) []byte { return b[:page] },
		"cut to two pages": func(b []byte) []byte { return b[:2*page] },
		"cut to a byte":    func(b []byte) []byte { return b[:1] },
		"both headers":     zero(0, 2),
		"garbage":          func(b []byte) []byte { return bytes.Repeat([]byte("garbage!"), len(b)/8) },
		"text":             func([]byte) []byte { return []byte("this is no database\n") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t)
			edit(t, path, change)
			_, err := bolt.Open(path, nil)
			corrupt(t, path, err)
			corrupt(t, path, bolt.Check(path))
			corrupt(t, path, bolt.Compact(path+".small", path))
			if _, err := os.Stat(path + ".small"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Compact left something: %v", err)
			}
		})
	}
	t.Run("cut by a page", func(t *testing.T) {
		path := filled(t)
		s := open(t, path)
		// So that root and free list move to the front, and what is cut off
		// isn't needed to open the file.
		for range 5 {
			apply(t, s, put(keyOf(0), valueOf(0)))
		}
		s.Close()
		pages := pagesOf(t, path)
		edit(t, path, func(b []byte) []byte { return b[:(pages-1)*page] })
		_, err := bolt.Open(path, nil)
		corrupt(t, path, err)
		if !strings.Contains(err.Error(), "the file is cut off: it has") {
			t.Errorf("Open: %v", err)
		}
	})
	t.Run("one header", func(t *testing.T) {
		for i := range 2 {
			path := filled(t)
			edit(t, path, zero(i, i+1))
			there := all(t, open(t, path)) // with the newer header, bbolt loses the last commit
			for k := range entries - 10 {
				if e := there[keyOf(k)]; string(e.Value) != valueOf(k) {
					t.Errorf("without header %d, %s is %q", i, keyOf(k), e.Value)
				}
			}
		}
	})
	t.Run("pages", func(t *testing.T) {
		found := 0
		for i := 2; i < pagesOf(t, filled(t)); i++ {
			path := filled(t)
			edit(t, path, zero(i, i+1))
			if err := bolt.Compact(path+".small", path); err != nil {
				corrupt(t, path, err)
				if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
					t.Errorf("Compact left %q", left)
				}
			}
			found += useable(t, path)
		}
		if found < entries {
			t.Errorf("%d damages found when each page was lost in turn, want at least one for each entry", found)
		}
	})
}

// TestOverwrittenWhileOpen has a stranger write over the file's headers under an
// open store, whereupon bbolt panics with its locks held: nothing hangs, and
// the file can be given up.
func TestOverwrittenWhileOpen(t *testing.T) {
	t.Parallel()
	calls := map[string]func(s *bolt.Store, path string) error{
		"read":  func(s *bolt.Store, path string) error { _, err := s.Get(t.Context(), []byte(keyOf(1))); return err },
		"write": func(s *bolt.Store, path string) error { _, err := s.Apply(t.Context(), put("a", "1")); return err },
	}
	for first, call := range calls {
		t.Run(first+" first", func(t *testing.T) {
			path := filled(t)
			s := open(t, path)
			edit(t, path, func(b []byte) []byte {
				clear(b[:2*os.Getpagesize()])
				return b
			})
			corrupt(t, path, call(s, path))
			for _, call := range calls {
				err := call(s, path)
				corrupt(t, path, err)
				if errors.Is(err, kvstore.ErrUncertain) {
					t.Errorf("%v, but it can't have been applied", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			_, err := bolt.Open(path, nil) // it isn't locked any more
			corrupt(t, path, err)
		})
	}
}

// TestFlippedBit flips one bit of one value: that entry is an error, never
// another answer, and all others are as before.
func TestFlippedBit(t *testing.T) {
	t.Parallel()
	path := filled(t)
	edit(t, path, func(b []byte) []byte {
		for at := 0; ; at++ {
			next := bytes.Index(b[at:], []byte(valueOf(37)))
			if next < 0 {
				return b
			}
			at += next
			b[at+500] ^= 4
		}
	})
	corrupt(t, path, bolt.Check(path))
	if damaged := useable(t, path); damaged != 1 {
		t.Errorf("%d damaged entries, want 1", damaged)
	}
	s := open(t, path)
	_, err := s.Apply(t.Context(), kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: []byte(keyOf(37)), Revision: 2}}})
	corrupt(t, path, err)

	// A scan stops short of it, says which it is, and can be led around.
	var r kvstore.Range
	seen := 0
	for {
		p, err := s.Scan(t.Context(), r)
		var c *kvstore.CorruptError
		if errors.As(err, &c) {
			if string(c.Key) != keyOf(37) || seen != 37 {
				t.Errorf("damage at %q, after %d entries", c.Key, seen)
			}
			r.After = c.Key
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		seen += len(p.Entries)
		if !p.More {
			break
		}
		r.After = p.Entries[len(p.Entries)-1].Key
	}
	if seen != entries-1 {
		t.Errorf("%d entries read", seen)
	}

	apply(t, s, put(keyOf(37), valueOf(37))) // written anew, it is well again
	s.Close()
	if err := bolt.Check(path); err != nil {
		t.Error(err)
	}
}

func TestOtherFiles(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, path string, says string) {
		t.Helper()
		before, _ := os.ReadFile(path)
		_, err := bolt.Open(path, nil)
		if err == nil || errors.Is(err, kvstore.ErrCorrupt) || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), says) {
			t.Errorf("Open: %v", err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Error("Open changed it")
		}
	}
	t.Run("directory", func(t *testing.T) { refused(t, t.TempDir(), "directory") })
	t.Run("no such directory", func(t *testing.T) { refused(t, filepath.Join(t.TempDir(), "none", "store.db"), "no such file") })
	t.Run("empty", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		apply(t, open(t, path), put("a", "1"))
	})
	foreign := func(t *testing.T, bucket, key, value string) string {
		path := filepath.Join(t.TempDir(), "other.db")
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Update(func(tx *bbolt.Tx) error {
			tx.CreateBucketIfNotExists([]byte("entries"))
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(key), []byte(value))
		})
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("another program's", func(t *testing.T) { refused(t, foreign(t, "members", "k", "v"), "no store of fermata") })
	t.Run("a newer layout", func(t *testing.T) { refused(t, foreign(t, "fermata", "version", "2"), `"2"`) })
}
