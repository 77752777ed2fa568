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

// engineKinds is what goes around an engine, so that it belongs to one process,
// or might be shared by several.
var engineKinds = map[string]func(kvstore.Store) kvstore.Store{
	"exclusive": nil, "shared": hidden,
}

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

// hooked is an engine with something to do at its calls. Each hook may be nil,
// and is set while nothing else uses the engine.
type hooked struct {
	kvstore.Store
	get     func(key []byte) error // before each Get, which fails with its error
	got     func(key []byte)       // after each Get
	apply   func(kvstore.Batch)    // before each Apply
	scan    func(kvstore.Range)    // before each Scan
	scanned func(kvstore.Range)    // after each Scan

	scanFails func() error // each Scan fails with its error
}

func (h *hooked) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if f := h.get; f != nil {
		if err := f(key); err != nil {
			return kvstore.Entry{}, err
		}
	}
	e, err := h.Store.Get(ctx, key)
	if f := h.got; f != nil {
		f(key)
	}
	return e, err
}

func (h *hooked) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if f := h.apply; f != nil {
		f(b)
	}
	return h.Store.Apply(ctx, b)
}

func (h *hooked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if f := h.scan; f != nil {
		f(r)
	}
	if f := h.scanFails; f != nil {
		if err := f(); err != nil {
			return kvstore.Page{}, err
		}
	}
	p, err := h.Store.Scan(ctx, r)
	if f := h.scanned; f != nil {
		f(r)
	}
	return p, err
}

// shared puts the hooks around an engine, as one that several processes might
// share.
func (h *hooked) shared(kv kvstore.Store) kvstore.Store {
	h.Store = kv
	return h
}

// exclusive puts the hooks around an engine that belongs to one process, and
// still does so.
func (h *hooked) exclusive(kv kvstore.Store) kvstore.Store {
	h.Store = kv
	return struct {
		kvstore.Store
		ownership
	}{h, kv.(kvstore.Exclusive)}
}

// ownership is what an engine of one process has beside its store.
type ownership interface {
	Incarnation() uint64
	Local() *kvstore.Local
}

// isHead reports whether a session's head lies under a key.
func isHead(key []byte) bool { return strings.HasPrefix(string(key), "h\x00") }

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

// afterCommit calls f once the commit with that number is done.
func (r *rig) afterCommit(number int, f func()) {
	r.faults.After(func(c faultkv.Call) {
		if c.Number == number {
			f()
		}
	})
}
