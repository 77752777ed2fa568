package kvstore

import (
	"context"
	"sync"

	"github.com/tidwall/btree"
)

// Memory is an engine that keeps everything in memory: for tests, and for
// agents that needn't outlive their process.
type Memory struct {
	shared      *memory
	incarnation uint64
	local       *Local
}

var (
	_ Exclusive = (*Memory)(nil)
	_ Immediate = (*Memory)(nil)
)

// memory is the data, which passes from one Memory to the next.
//
// The map answers for single keys, faster than the tree by far and without a
// string made of each key that is looked up; the tree is there for order, and
// is touched only when a key comes or goes.
type memory struct {
	mu           sync.RWMutex
	owner        *Memory // the value that may use it; nil once closed
	incarnations uint64
	last         Revision
	items        map[string]*item
	order        btree.Map[string, *item]
	fresh        []item // for the next keys: allocated together
}

type item struct {
	value    []byte
	revision Revision
}

// NewMemory returns an empty engine.
func NewMemory() *Memory {
	return (&Memory{shared: &memory{items: map[string]*item{}}}).Reopen()
}

// Reopen returns what a restart would leave: an engine over the same data, of
// the next incarnation, without a lease. From then on m answers ErrClosed. It
// may be closed already.
func (m *Memory) Reopen() *Memory {
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incarnations++
	s.owner = &Memory{shared: s, incarnation: s.incarnations, local: NewLocal()}
	return s.owner
}

// Incarnation counts the times the data was opened, from 1.
func (m *Memory) Incarnation() uint64 { return m.incarnation }

// Local returns the same for all who hold this value; Reopen begins a new one.
func (m *Memory) Local() *Local { return m.local }

// Immediate marks that no call waits for more than the map's lock.
func (m *Memory) Immediate() {}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, key []byte) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	s := m.shared
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.owner != m {
		return Entry{}, ErrClosed
	}
	it, found := s.items[string(key)]
	if !found {
		return Entry{}, ErrNotFound
	}
	return NewEntry(key, it.value, it.revision), nil
}

// Scan implements [Store].
func (m *Memory) Scan(ctx context.Context, r Range) (Page, error) {
	if err := ctx.Err(); err != nil {
		return Page{}, err
	}
	s := m.shared
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.owner != m {
		return Page{}, ErrClosed
	}
	p := NewPager(r)
	s.order.Ascend(string(p.Seek()), func(key string, it *item) bool {
		k := []byte(key)
		if !p.Takes(k, len(it.value)) {
			return false
		}
		p.Add(k, it.value, it.revision)
		return true
	})
	return p.Page(), nil
}

// Apply implements [Store]. It is never uncertain.
func (m *Memory) Apply(ctx context.Context, b Batch) (Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != m {
		return 0, ErrClosed
	}
	for i := range b.Preconditions {
		if p := &b.Preconditions[i]; s.revision(p.Key) != p.Revision {
			return 0, ErrConflict
		}
	}
	return s.write(b), nil
}

// Close ends this value; the data stays, for Reopen.
func (m *Memory) Close() error {
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == m {
		s.owner = nil
	}
	return nil
}

func (s *memory) revision(key []byte) Revision {
	if it, found := s.items[string(key)]; found {
		return it.revision
	}
	return 0
}

func (s *memory) write(b Batch) Revision {
	for _, key := range b.Deletes {
		if _, found := s.items[string(key)]; found {
			delete(s.items, string(key))
			s.order.Delete(string(key))
		}
	}
	if len(b.Puts) == 0 {
		return 0
	}
	s.last++
	for i := range b.Puts {
		s.put(&b.Puts[i])
	}
	return s.last
}

func (s *memory) put(p *Put) {
	it, found := s.items[string(p.Key)]
	if !found {
		if len(s.fresh) == 0 {
			s.fresh = make([]item, 16)
		}
		it, s.fresh = &s.fresh[0], s.fresh[1:]
		key := string(p.Key)
		s.items[key] = it
		s.order.Set(key, it)
	}
	// Values are copied out under the lock, so a value's space can be used
	// again; unless that would pin far too much of it.
	if cap(it.value) > 2*len(p.Value)+64 {
		it.value = nil
	}
	it.value = append(it.value[:0], p.Value...)
	it.revision = s.last
}
