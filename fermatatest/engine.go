package fermatatest

import (
	"os"
	"path/filepath"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

// Engine makes the places that keep histories.
type Engine struct {
	Name string
	// New makes an empty place.
	New func() (Place, error)
}

// Place is where a store is kept over the lives of its processes.
type Place interface {
	// Open opens the store, at first and after each crash. The store of before
	// was closed.
	Open() (kvstore.Store, error)
	// Remove removes all.
	Remove() error
}

// Engines returns those that fermata has, each also as one that processes
// share: where leases are stored, and end by time.
func Engines() []Engine {
	return []Engine{Memory(), Shared(Memory()), Bolt(), Shared(Bolt())}
}

// Memory returns the engine that keeps histories in memory. It is the fastest.
func Memory() Engine {
	return Engine{"memory", func() (Place, error) { return &memory{}, nil }}
}

type memory struct{ last *kvstore.Memory }

func (m *memory) Open() (kvstore.Store, error) {
	if m.last == nil {
		m.last = kvstore.NewMemory()
	} else {
		m.last = m.last.Reopen()
	}
	return m.last, nil
}

func (m *memory) Remove() error { return nil }

// Bolt returns the engine that keeps each history in a file of its own.
func Bolt() Engine {
	return Engine{"bolt", func() (Place, error) {
		dir, err := os.MkdirTemp("", "fermatatest")
		return file(dir), err
	}}
}

// file is the directory of the file.
type file string

func (f file) Open() (kvstore.Store, error) {
	s, err := bolt.Open(filepath.Join(string(f), "fermata.db"), nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (f file) Remove() error { return os.RemoveAll(string(f)) }

// Shared returns an engine whose stores are no [kvstore.Exclusive].
func Shared(e Engine) Engine {
	return Engine{e.Name + ", shared", func() (Place, error) {
		p, err := e.New()
		return shared{p}, err
	}}
}

type shared struct{ Place }

func (s shared) Open() (kvstore.Store, error) {
	kv, err := s.Place.Open()
	if err != nil {
		return nil, err
	}
	return kvtest.Shared(kv), nil
}
