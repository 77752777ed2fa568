package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
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

// counting counts what is written, and apart what is written beside messages,
// whose keys begin with "m".
type counting struct {
	kvstore.Exclusive
	bytes, total, entries, commits atomic.Int64
}

func (c *counting) reset() {
	for _, n := range []*atomic.Int64{&c.bytes, &c.total, &c.entries, &c.commits} {
		n.Store(0)
	}
}

func (c *counting) Apply(ctx context.Context, batch kvstore.Batch) (kvstore.Revision, error) {
	c.commits.Add(1)
	c.entries.Add(int64(len(batch.Puts) + len(batch.Deletes)))
	for _, p := range batch.Puts {
		c.total.Add(int64(len(p.Key) + len(p.Value)))
		if p.Key[0] != 'm' {
			c.bytes.Add(int64(len(p.Key) + len(p.Value)))
		}
	}
	for _, key := range batch.Deletes {
		c.bytes.Add(int64(len(key)))
	}
	return c.Exclusive.Apply(ctx, batch)
}

// bare returns what makes batches of as many entries and bytes as those had on
// average that were counted. Their keys begin with what it is given.
func (c *counting) bare() func(key ...string) kvstore.Batch {
	commits := c.commits.Load()
	entries := int(c.entries.Load() / commits)
	value := make([]byte, int(c.total.Load()/commits)/entries)
	return func(key ...string) (batch kvstore.Batch) {
		for e := range entries {
			own := kvstore.AppendKey(kvstore.Key("z"), append(key, fmt.Sprint(e))...)
			batch.Puts = append(batch.Puts, kvstore.Put{Key: own, Value: value})
		}
		return batch
	}
}

// openBolt returns the engine on a file of its own.
func openBolt(b *testing.B) *bolt.Store {
	b.Helper()
	db, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

func mean(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum / float64(len(of))
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// quantile returns the value below which a share of the others lie.
func quantile(of []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
