package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
)

// TestGrowthUnderReaders makes the file grow, and with it be mapped anew, while
// others read, and call the store again for each entry of a page: what would
// lock up if any of it happened inside a transaction.
func TestGrowthUnderReaders(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				p, err := s.Scan(ctx, kvstore.Range{Limit: 20})
				for _, e := range p.Entries {
					if _, err = s.Get(ctx, e.Key); err != nil {
						break
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	value := strings.Repeat("v", kvstore.MaxValue/4)
	for w := range 4 {
		writers.Go(func() {
			for i := range 80 {
				if _, err := s.Apply(ctx, put(fmt.Sprintf("%03d-%d", i, w), value)); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() {
		writers.Wait()
		stop()
		readers.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(time.Minute):
		panic("locked up") // with the stacks of all
	}
}

// TestSizeUnderOverwrites writes the same keys over and over, while a reader
// reads everything, page by page, and slowly.
func TestSizeUnderOverwrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reader, writers sync.WaitGroup
	reader.Go(func() {
		var r kvstore.Range
		for ctx.Err() == nil {
			p, err := s.Scan(ctx, r)
			if err != nil {
				return
			}
			if r.After = nil; p.More {
				r.After = p.Entries[len(p.Entries)-1].Key
			}
			r.Limit = 7
		}
	})
	const keys, writes = 50, 100
	value := strings.Repeat("v", 2000)
	for k := range keys {
		writers.Go(func() {
			for i := range writes {
				if _, err := s.Apply(ctx, put(fmt.Sprint("progress-", k), fmt.Sprint(i, value))); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	reader.Wait()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB after %d writes of 2 KB to %d keys", info.Size()>>10, keys*writes, keys)
	if info.Size() > 2<<20 {
		t.Errorf("%d bytes for %d live ones", info.Size(), keys*2000)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, small := filepath.Join(dir, "store.db"), filepath.Join(dir, "small.db")
	s := open(t, path)
	value := strings.Repeat("v", 10_000)
	var last kvstore.Revision
	for i := range 40 {
		var b kvstore.Batch
		for j := range 25 {
			b.Puts = append(b.Puts, put(fmt.Sprintf("session-%d-%d", i, j), value).Puts...)
		}
		apply(t, s, b)
		for k := range b.Puts {
			if k != i%25 {
				b.Deletes = append(b.Deletes, b.Puts[k].Key)
			}
		}
		b.Puts = nil
		apply(t, s, b)
	}
	last = apply(t, s, put("last", "1"))
	want, incarnation := all(t, s), s.Incarnation()
	s.Close()

	if err := bolt.Compact(path, path); !errors.Is(err, os.ErrExist) {
		t.Errorf("Compact onto itself: %v", err)
	}
	if err := os.WriteFile(small+".compacting", []byte("an earlier one, cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bolt.Compact(small, path); err != nil {
		t.Fatal(err)
	}
	if err := bolt.Check(small); err != nil {
		t.Error(err)
	}
	before, _ := os.Stat(path)
	after, _ := os.Stat(small)
	t.Logf("%d KiB became %d KiB", before.Size()>>10, after.Size()>>10)
	if after.Size() > 1<<20 || after.Mode() != before.Mode() {
		t.Errorf("%d bytes, mode %v; it was %d, %v", after.Size(), after.Mode(), before.Size(), before.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("in the directory: %q", left)
	}

	again := open(t, small)
	got := all(t, again)
	for key, e := range want {
		if g := got[key]; string(g.Value) != string(e.Value) || g.Revision != e.Revision {
			t.Errorf("%s is %.20q at %d, was %.20q at %d", key, g.Value, g.Revision, e.Value, e.Revision)
		}
	}
	if len(got) != len(want) || again.Incarnation() <= incarnation {
		t.Errorf("%d entries, were %d; incarnation %d, was %d", len(got), len(want), again.Incarnation(), incarnation)
	}
	if r := apply(t, again, put("more", "1")); r <= last {
		t.Errorf("revision %d after %d", r, last)
	}
	if err := bolt.Compact(filepath.Join(dir, "x"), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Compact of nothing: %v", err)
	}
}

// sound makes sure that bbolt finds nothing wrong with the pages of a file.
func sound(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: time.Second})
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	})
}
