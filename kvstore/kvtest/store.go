package kvtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// store is a Store whose surprises fail the test.
type store struct {
	t  *testing.T
	kv kvstore.Store
}

func open(t *testing.T, c Config) store {
	t.Helper()
	s := store{t, c.Open(t)}
	t.Cleanup(func() { s.kv.Close() })
	return s
}

func put(key, value string) kvstore.Put {
	return kvstore.Put{Key: []byte(key),
		Value: []byte(value)}
}

func at(key string, r kvstore.Revision) kvstore.Precondition {
	return kvstore.Precondition{Key: []byte(key), Revision: r}
}

func absent(key string) kvstore.Precondition { return at(key, 0) }

// apply applies a batch that must succeed.
func (s store) apply(b kvstore.Batch) kvstore.Revision {
	s.t.Helper()
	r, err := s.kv.Apply(s.t.Context(), b)
	if err != nil {
		s.t.Fatalf("Apply: %v", err)
	}
	return r
}

func (s store) put(key, value string, pre ...kvstore.Precondition) kvstore.Revision {
	s.t.Helper()
	return s.apply(kvstore.Batch{Preconditions: pre, Puts: []kvstore.Put{put(key, value)}})
}

func (s store) delete(keys ...string) {
	s.t.Helper()
	var b kvstore.Batch
	for _, k := range keys {
		b.Deletes = append(b.Deletes, []byte(k))
	}
	s.apply(b)
}

// refused applies a batch that must fail with want, and certainly.
func (s store) refused(want error, b kvstore.Batch) error {
	s.t.Helper()
	_, err := s.kv.Apply(s.t.Context(), b)
	if !errors.Is(err, want) || errors.Is(err, kvstore.ErrUncertain) {
		s.t.Fatalf("Apply: %v, want %v", err, want)
	}
	return err
}

// has says what must be under a key.
func (s store) has(key, value string, r kvstore.Revision) {
	s.t.Helper()
	e, err := s.kv.Get(s.t.Context(), []byte(key))
	if err != nil || string(e.Key) != key || string(e.Value) != value || e.Revision != r {
		s.t.Fatalf("Get(%.40q) = %.40q = %.40q at %d, %v; want %.40q at %d", key, e.Key, e.Value,
			e.Revision, err, value, r)
	}
}

func (s store) lacks(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		if e, err := s.kv.Get(s.t.Context(), []byte(key)); !errors.Is(err, kvstore.ErrNotFound) {
			s.t.Fatalf("Get(%.40q) = %.40q at %d, %v; want ErrNotFound", key, e.Value, e.Revision,
				err)
		}
	}
}

// page reads one page, and checks what is true of each.
func (s store) page(r kvstore.Range) kvstore.Page {
	s.t.Helper()
	p, err := s.kv.Scan(s.t.Context(), r)
	if err != nil {
		s.t.Fatalf("Scan: %v", err)
	}
	limit, bytes := r.Limit, 0
	if limit <= 0 || limit > kvstore.MaxPage {
		limit = kvstore.MaxPage
	}
	last := r.After
	for _, e := range p.Entries {
		bytes += len(e.Key) + len(e.Value)
		if string(e.Key) <= string(last) || !strings.HasPrefix(string(e.Key), string(r.Prefix)) {
			s.t.Fatalf("key %.40q comes after %.40q in the scan of %.40q", e.Key, last, r.Prefix)
		}
		last = e.Key
	}
	if n := len(p.Entries); n > limit || bytes > kvstore.MaxPageBytes || n == 0 && p.More {
		s.t.Fatalf("a page of %d entries and %d bytes, and more: %v; the limits are %d and %d", n,
			bytes, p.More, limit, kvstore.MaxPageBytes)
	}
	return p
}

// scan reads all pages of a range; between runs after each page but the last.
func (s store) scan(r kvstore.Range, between func()) []kvstore.Entry {
	s.t.Helper()
	var all []kvstore.Entry
	for {
		p := s.page(r)
		all = append(all, p.Entries...)
		if !p.More {
			return all
		}
		r.After = all[len(all)-1].Key
		if between != nil {
			between()
		}
	}
}

func (s store) keys(r kvstore.Range) []string {
	s.t.Helper()
	keys := []string{}
	for _, e := range s.scan(r, nil) {
		keys = append(keys, string(e.Key))
	}
	return keys
}

// retry calls f until it is no conflict, or there must be something wrong.
func retry(ctx context.Context, f func(context.Context) error) (err error) {
	for range 100_000 {
		if err = f(ctx); !errors.Is(err, kvstore.ErrConflict) {
			break
		}
	}
	return err
}
