package faultkv

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// store is what the code under test sees.
type store struct{ f *Injector }

// exclusive is a store over an engine that is exclusive.
type exclusive struct {
	store
	engine kvstore.Exclusive
}

func (e exclusive) Incarnation() uint64   { return e.engine.Incarnation() }
func (e exclusive) Local() *kvstore.Local { return e.engine.Local() }

// signal is what an engine with signals has beside its store.
type signal struct{ engine kvstore.Signaler }

func (s signal) Signal(topic string) { s.engine.Signal(topic) }

func (s signal) Watch(topic string, wake func()) (stop func()) { return s.engine.Watch(topic, wake) }

// now is what an engine with a clock has beside its store.
type now struct{ engine kvstore.Clock }

func (n now) Now() (t time.Time, within time.Duration) { return n.engine.Now() }

func (s store) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	c, before := s.f.arrive(b)
	if before != nil {
		before(c)
	}
	revision, err := s.f.apply(ctx, c, b)
	s.f.leave(c, err)
	return revision, err
}

func (s store) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if s.f.Dead() {
		return kvstore.Entry{}, ErrDead
	}
	if err := s.f.hang(ctx); err != nil {
		return kvstore.Entry{}, err
	}
	e, err := s.f.inner.Get(ctx, key)
	s.f.land()
	if s.f.Dead() {
		return kvstore.Entry{}, ErrDead
	}
	return e, err
}

func (s store) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if s.f.Dead() {
		return kvstore.Page{}, ErrDead
	}
	if err := s.f.hang(ctx); err != nil {
		return kvstore.Page{}, err
	}
	p, err := s.f.inner.Scan(ctx, r)
	s.f.land()
	if s.f.Dead() {
		return kvstore.Page{}, ErrDead
	}
	return p, err
}

// Close closes the engine, also under a dead store.
func (s store) Close() error { return s.f.inner.Close() }
