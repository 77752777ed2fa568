package runner_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// hidden is an engine that several processes might share: leases on it are
// stored.
func hidden(kv kvstore.Store) kvstore.Store { return struct{ kvstore.Store }{kv} }

// atApply has do called right before the n-th Apply from now on.
func (r *rig) atApply(n int, do func()) {
	at := r.faults.Applies() + n
	r.faults.Before(func(c faultkv.Call) {
		if c.Number == at {
			r.faults.Before(nil)
			do()
		}
	})
}

// before has f run before the next write.
func (r *rig) before(f func()) {
	first := true
	r.faults.Before(func(faultkv.Call) {
		if first {
			first = false
			f()
		}
	})
}

// hooked is an engine with something to do at its calls.
type hooked struct {
	kvstore.Store
	before func(kvstore.Batch) // each Apply
	after  func(kvstore.Range) // each Scan
}

func (h *hooked) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if f := h.before; f != nil {
		f(b)
	}
	return h.Store.Apply(ctx, b)
}

func (h *hooked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := h.Store.Scan(ctx, r)
	if f := h.after; f != nil {
		f(r)
	}
	return p, err
}

func (h *hooked) wrap(kv kvstore.Store) kvstore.Store {
	h.Store = kv
	return h
}

// looked has something happen before or after a head is read, once.
type looked struct {
	kvstore.Exclusive
	before, after func()
}

func (l *looked) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if f := l.before; f != nil && strings.HasPrefix(string(key), "h\x00") {
		l.before = nil
		f()
	}
	e, err := l.Exclusive.Get(ctx, key)
	if f := l.after; f != nil && strings.HasPrefix(string(key), "h\x00") {
		l.after = nil
		f()
	}
	return e, err
}

// counted counts the reads of heads and the operations of the largest batch.
type counted struct {
	kvstore.Exclusive
	heads   sync.Map // by key: *atomic.Int32
	largest atomic.Int32
}

func (c *counted) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	n, _ := c.heads.LoadOrStore(string(key), new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	return c.Exclusive.Get(ctx, key)
}

func (c *counted) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	n := int32(len(b.Puts) + len(b.Deletes) + len(b.Preconditions))
	for was := c.largest.Load(); n > was &&
		!c.largest.CompareAndSwap(was, n); was = c.largest.Load() {
	}
	return c.Exclusive.Apply(ctx, b)
}

func (c *counted) reads(session string) int32 {
	n, ok := c.heads.Load(string(kvstore.Key("h", session)))
	if !ok {
		return 0
	}
	return n.(*atomic.Int32).Load()
}

// headReads counts the reads of heads.
type headReads struct {
	kvstore.Store
	n atomic.Int32
}

func (h *headReads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if strings.HasPrefix(string(key), "h\x00") {
		h.n.Add(1)
	}
	return h.Store.Get(ctx, key)
}

// afterCommit calls f once the commit with that number is done.
func (r *rig) afterCommit(number int, f func()) {
	r.faults.After(func(c faultkv.Call) {
		if c.Number == number {
			f()
		}
	})
}
