package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// watched is a process's store. It notes when the engine failed, or took long:
// a drive may have lost its lease then, though nothing befell the fleet but a
// slow machine.
type watched struct {
	kvstore.Store
	o *outside
}

func (w watched) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	began := now()
	e, err := w.Store.Get(ctx, key)
	w.took(ctx, began, err)
	return e, err
}

func (w watched) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	began := now()
	p, err := w.Store.Scan(ctx, r)
	w.took(ctx, began, err)
	return p, err
}

func (w watched) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	began := now()
	r, err := w.Store.Apply(ctx, b)
	w.took(ctx, began, err)
	return r, err
}

func (w watched) took(ctx context.Context, began instant, err error) {
	well := err == nil || errors.Is(err, kvstore.ErrConflict) || errors.Is(err, kvstore.ErrNotFound) ||
		errors.Is(ctx.Err(), context.Canceled)
	if !well || now().sub(began) > w.o.slow() {
		w.o.trouble(troubled, began)
	}
}

// What engines may offer beside a store.
type (
	store    kvstore.Store
	signaler interface {
		Signal(topic string)
		Watch(topic string, wake func()) (stop func())
	}
	timed interface {
		Now() (t time.Time, within time.Duration)
	}
)

// ahead is an engine's clock as a process sees it whose own is behind by so
// much.
type ahead struct {
	timed
	by time.Duration
}

func (a ahead) Now() (t time.Time, within time.Duration) {
	if t, within = a.timed.Now(); t.IsZero() {
		return t, within
	}
	return t.Add(a.by), within
}

// watch returns kv, watched, with what it offers.
func watch(kv kvstore.Store, o *outside) kvstore.Store { return o.offering(watched{kv, o}, kv) }

// offering returns the store w with what kv offers.
func (o *outside) offering(w, kv kvstore.Store) kvstore.Store {
	s, signals := kv.(kvstore.Signaler)
	c, clocked := kv.(kvstore.Clock)
	its := ahead{c, o.ahead}
	switch {
	case signals && clocked:
		return struct {
			store
			signaler
			timed
		}{w, s, its}
	case signals:
		return struct {
			store
			signaler
		}{w, s}
	}
	return w
}

// pulse notes when the process got no processor for a while, until ctx ends.
func (o *outside) pulse(ctx context.Context) {
	beat := time.NewTicker(o.slow() / 2)
	defer beat.Stop()
	for last := now(); ctx.Err() == nil; {
		select {
		case <-beat.C:
		case <-ctx.Done():
		}
		if now().sub(last) > o.slow() {
			o.trouble(starved, last)
		}
		last = now()
	}
}

// slow is what takes long: a few of it are a lease.
func (o *outside) slow() time.Duration { return o.lease / 8 }

// troubles are when a process last noted one.
type troubles struct {
	mu   sync.Mutex
	last instant
}

// trouble notes one that began then, and lasts until now; see noted.
func (o *outside) trouble(w what, from instant) {
	o.troubles.mu.Lock()
	defer o.troubles.mu.Unlock()
	to := now()
	if w == troubled && to.sub(o.troubles.last) < o.slow()/2 && from > o.troubles.last {
		return // the last one stands for it
	}
	o.troubles.last = to
	o.write(note{What: w, Process: o.process, Life: o.life, At: to, From: from})
}
