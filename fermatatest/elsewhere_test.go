package fermatatest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"

	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore"
)

// engineEnv is the address of an engine that another process serves (package
// sharedkv): all scenarios are then cut there, and on no other. So engines that
// are modules of their own are put through what stands in these tests.
const engineEnv = "FERMATA_ENGINE"

// elsewhere returns that engine, if there is one.
func elsewhere() []fermatatest.Engine {
	addr := os.Getenv(engineEnv)
	if addr == "" {
		return nil
	}
	return []fermatatest.Engine{{Name: "elsewhere", New: func() (fermatatest.Place, error) {
		return corner{addr, kvstore.Key(rand.Text()[:16])}, nil
	}}}
}

// corner is where a history is kept: all keys of the engine with a prefix.
type corner struct {
	addr   string
	prefix []byte
}

func (c corner) Open() (kvstore.Store, error) {
	return within{sharedkv.Open(c.addr, nil), c.prefix}, nil
}

func (c corner) Remove() error {
	ctx := context.Background()
	kv, _ := c.Open()
	defer kv.Close()
	for {
		page, err := kv.Scan(ctx, kvstore.Range{Limit: kvstore.MaxOperations})
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		var gone kvstore.Batch
		for _, e := range page.Entries {
			gone.Deletes = append(gone.Deletes, e.Key)
		}
		if _, err := kv.Apply(ctx, gone); err != nil {
			return err
		}
	}
}

// within is a store of the keys with a prefix, without it.
type within struct {
	kvstore.Store
	prefix []byte
}

func (w within) in(key []byte) []byte { return append(bytes.Clone(w.prefix), key...) }

func (w within) out(e kvstore.Entry) kvstore.Entry {
	e.Key = bytes.TrimPrefix(e.Key, w.prefix)
	return e
}

func (w within) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	e, err := w.Store.Get(ctx, w.in(key))
	return w.out(e), err
}

func (w within) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	r.Prefix = w.in(r.Prefix)
	if len(r.After) > 0 {
		r.After = w.in(r.After)
	}
	if len(r.Before) > 0 {
		r.Before = w.in(r.Before)
	}
	p, err := w.Store.Scan(ctx, r)
	for i, e := range p.Entries {
		p.Entries[i] = w.out(e)
	}
	return p, err
}

func (w within) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	var own kvstore.Batch
	for _, p := range b.Preconditions {
		p.Key = w.in(p.Key)
		own.Preconditions = append(own.Preconditions, p)
	}
	for _, p := range b.Puts {
		p.Key = w.in(p.Key)
		own.Puts = append(own.Puts, p)
	}
	for _, key := range b.Deletes {
		own.Deletes = append(own.Deletes, w.in(key))
	}
	return w.Store.Apply(ctx, own)
}
