package bench

import (
	"context"
	"sync/atomic"

	"github.com/fermata-ai/fermata/kvstore"
)

// tally counts all that is asked of an engine.
type tally struct {
	kvstore.Exclusive
	reads, commits, bytes atomic.Int64 // bytes of keys and values, read and written
}

// costs is what a tally has counted.
type costs struct{ reads, commits, bytes float64 }

// take returns what was counted, for each of so many, and begins anew.
func (t *tally) take(n int) costs {
	each := func(c *atomic.Int64) float64 { return float64(c.Swap(0)) / float64(n) }
	return costs{each(&t.reads), each(&t.commits), each(&t.bytes)}
}

func (t *tally) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	e, err := t.Exclusive.Get(ctx, key)
	t.reads.Add(1)
	t.bytes.Add(int64(len(e.Key) + len(e.Value)))
	return e, err
}

func (t *tally) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := t.Exclusive.Scan(ctx, r)
	t.reads.Add(1)
	for _, e := range p.Entries {
		t.bytes.Add(int64(len(e.Key) + len(e.Value)))
	}
	return p, err
}

func (t *tally) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	for _, p := range b.Puts {
		t.bytes.Add(int64(len(p.Key) + len(p.Value)))
	}
	for _, key := range b.Deletes {
		t.bytes.Add(int64(len(key)))
	}
	rev, err := t.Exclusive.Apply(ctx, b)
	if err == nil {
		t.commits.Add(1)
	}
	return rev, err
}
