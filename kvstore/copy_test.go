package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

// shared returns a memory that isn't exclusive.
func shared() kvstore.Store { return kvtest.Shared(kvstore.NewMemory()) }

func put(t testing.TB, s kvstore.Store, key string, value []byte) {
	t.Helper()
	b := kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: value}}}
	if _, err := s.Apply(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// all returns what a store holds.
func all(t testing.TB, s kvstore.Store) map[string]string {
	t.Helper()
	held := map[string]string{}
	for r := (kvstore.Range{}); ; {
		p, err := s.Scan(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			held[string(e.Key)] = string(e.Value)
			r.After = e.Key
		}
		if !p.More {
			return held
		}
	}
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// full fills a store with so many entries, among them large values and long
// keys.
func full(t testing.TB, s kvstore.Store, n int) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("key %05d", i)
		if i%7 == 0 {
			key += string(bytes.Repeat([]byte{0xff}, kvstore.MaxKey-len(key)))
		}
		value := fmt.Append(nil, i)
		if i%50 == 0 {
			value = bytes.Repeat([]byte{byte(i)}, kvstore.MaxValue)
		}
		put(t, s, key, value)
	}
}

// A Copy that is ended at any of its writes, or whose acknowledgement is lost
// there, is called again and ends with an equal store, and the first one with
// nothing changed.
func TestCopyGoesOnWhereItEnded(t *testing.T) {
	from := shared()
	full(t, from, 1200)
	before := all(t, from)
	for n := 1; ; n++ {
		for _, fault := range []faultkv.Fault{
			faultkv.FailAt(n).AndDie(), faultkv.LoseAt(n).AndDie(), faultkv.LoseAt(n),
		} {
			to := shared()
			f := faultkv.New(to, fault)
			_, err := kvstore.Copy(t.Context(), from, f.Store, nil)
			if f.Applies() < n {
				if err != nil {
					t.Fatal(err)
				}
				if n < 10 {
					t.Fatalf("there are %d writes", n)
				}
				return
			}
			if f.Dead() && err == nil {
				t.Errorf("ended at write %d: there is no error", n)
			}
			if !f.Dead() && err != nil {
				t.Errorf("the acknowledgement of write %d was lost: %v", n, err)
			}
			if err != nil { // unfinished, or all is done but nothing told
				_, err = kvstore.Copy(t.Context(), from, to, nil)
				if errors.Is(err, kvstore.ErrNotEmpty) && same(all(t, to), before) {
					err = nil
				}
			}
			if err != nil || !same(all(t, to), before) || !same(all(t, from), before) {
				t.Fatalf("ended at write %d: %v, %d of %d entries", n, err, len(all(t, to)), len(before))
			}
		}
	}
}

// What changes after a Copy that goes ahead is made up for, whatever it is.
func TestCopyAhead(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		from, to := shared(), shared()
		change := func() {
			for _, key := range rapid.SliceOf(rapid.StringMatching(`[ab\x00]{1,3}`)).Draw(rt, "keys") {
				if rapid.Bool().Draw(rt, "deleted") {
					_, err := from.Apply(context.Background(), kvstore.Batch{Deletes: [][]byte{[]byte(key)}})
					if err != nil {
						rt.Fatal(err)
					}
				} else {
					put(t, from, key, []byte(rapid.StringN(0, 2, 2).Draw(rt, "value")))
				}
			}
		}
		for range rapid.IntRange(0, 3).Draw(rt, "ahead") {
			change()
			if _, err := kvstore.Copy(context.Background(), from, to, &kvstore.CopyOptions{Ahead: true}); err != nil {
				rt.Fatal(err)
			}
		}
		change()
		done, err := kvstore.Copy(context.Background(), from, to, nil)
		if want := all(t, from); err != nil || !same(all(t, to), want) || done.Compared != 2*len(want) {
			rt.Fatalf("%+v, %v: %q, and not %q", done, err, all(t, to), want)
		}
	})
}

// changing writes to its store with the third page that is read.
type changing struct {
	kvstore.Store
	pages int
}

func (c *changing) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if c.pages++; c.pages == 3 {
		b := kvstore.Batch{Puts: []kvstore.Put{{Key: []byte("key 00001"), Value: []byte("changed")}}}
		if _, err := c.Store.Apply(ctx, b); err != nil {
			return kvstore.Page{}, err
		}
	}
	return c.Store.Scan(ctx, r)
}

// late writes to its store once the last entry is read for the second time.
type late struct {
	kvstore.Store
	last  []byte
	reads int
}

func (l *late) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := l.Store.Scan(ctx, r)
	if n := len(p.Entries); err == nil && n > 0 && bytes.Equal(p.Entries[n-1].Key, l.last) {
		if l.reads++; l.reads == 2 {
			b := kvstore.Batch{Puts: []kvstore.Put{{Key: []byte("key 00001"), Value: []byte("late")}}}
			_, err = l.Store.Apply(ctx, b)
		}
	}
	return p, err
}

// A store that is written to behind the place where it is compared, as by a
// process that was forgotten, is refused too: the copy lacks what was written.
func TestCopyOfAStoreThatIsWrittenToBehind(t *testing.T) {
	from, to := shared(), shared()
	full(t, from, 1200)
	p, err := from.Scan(t.Context(), kvstore.Range{After: []byte("key 01198")})
	if err != nil {
		t.Fatal(err)
	}
	l := &late{Store: from, last: p.Entries[len(p.Entries)-1].Key}
	if _, err = kvstore.Copy(t.Context(), l, to, nil); !errors.Is(err, kvstore.ErrChanged) || l.reads < 2 {
		t.Errorf("it comes to %v, after %d reads of the last entry", err, l.reads)
	}
	if err := kvstore.Finished(t.Context(), to); !errors.Is(err, kvstore.ErrUnfinished) {
		t.Errorf("the copy is %v", err)
	}
	done, err := kvstore.Copy(t.Context(), from, to, nil)
	if err != nil || done.Written != 1 || !same(all(t, to), all(t, from)) {
		t.Errorf("called again: %+v, %v", done, err)
	}
}

// A store that is written to meanwhile, one that holds something else, and an
// incarnation that isn't the greater one are refused, and nothing is lost.
func TestCopyRefuses(t *testing.T) {
	from, to := shared(), shared()
	full(t, from, 1200)
	_, err := kvstore.Copy(t.Context(), &changing{Store: from}, to, nil)
	if !errors.Is(err, kvstore.ErrChanged) {
		t.Errorf("a store that changes: %v", err)
	}
	seen := 0
	o := &kvstore.CopyOptions{OnProgress: func(c kvstore.Copied) { seen = c.Compared }}
	done, err := kvstore.Copy(t.Context(), from, to, o)
	if err != nil || done.Written != 1 || !same(all(t, to), all(t, from)) || seen == 0 {
		t.Errorf("called again: %+v, %v", done, err)
	}
	if _, err := kvstore.Copy(t.Context(), from, to, nil); !errors.Is(err, kvstore.ErrNotEmpty) {
		t.Errorf("a copy that is finished: %v", err)
	}
	part := shared()
	if _, err := kvstore.Copy(t.Context(), from, part, &kvstore.CopyOptions{Ahead: true}); err != nil {
		t.Error(err)
	}
	if _, err := kvstore.Copy(t.Context(), part, shared(), nil); err == nil {
		t.Error("a copy that isn't finished is copied")
	}
	one := kvstore.NewMemory()
	if _, err := kvstore.Copy(t.Context(), one, kvstore.NewMemory(), nil); err == nil {
		t.Error("the same incarnation is accepted")
	}
	if _, err := kvstore.Copy(t.Context(), one, kvstore.NewMemory().Reopen(), nil); err != nil {
		t.Error(err)
	}
}

// The greatest incarnation goes along from store to store, and another that one
// process has must be of a later one.
func TestCopyThereAndBack(t *testing.T) {
	file, between, again := kvstore.NewMemory().Reopen().Reopen(), shared(), shared()
	put(t, file, "a", nil)
	for _, step := range [][2]kvstore.Store{{file, between}, {between, again}} {
		if _, err := kvstore.Copy(t.Context(), step[0], step[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	back := kvstore.NewMemory()
	for n := 1; n <= 4; n++ {
		_, err := kvstore.Copy(t.Context(), again, back, nil)
		if (err == nil) != (n == 4) {
			t.Errorf("back, incarnation %d after 3: %v", n, err)
		}
		if n < 4 {
			back = back.Reopen()
		}
	}
	if !same(all(t, again), all(t, back)) {
		t.Errorf("%q, and not %q", all(t, back), all(t, again))
	}
}

// A store isn't copied to itself, and nothing is left in it.
func TestCopyToItself(t *testing.T) {
	kv := kvstore.NewMemory()
	if _, err := kvstore.Copy(t.Context(), kvtest.Shared(kv), kvtest.Shared(kv), nil); err == nil || len(all(t, kv)) > 0 {
		t.Errorf("%v: it has %q", err, all(t, kv))
	}
}
