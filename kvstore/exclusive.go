package kvstore

import "sync"

// Exclusive is implemented by an engine that one process holds alone. Leases on
// what is stored then need not be stored themselves: they live in the engine's
// value, are seen by all who share it, and are void when the process ends.
type Exclusive interface {
	Store
	// Incarnation is greater each time the store is opened.
	Incarnation() uint64
	// Local is the engine's place for leases, signals and lists; always the
	// same one.
	Local() *Local
}

// Local is what those who share an engine's value tell each other beside the
// store: leases, signals, and lists of names.
type Local struct {
	mu      sync.Mutex
	holders map[string]string
	waiters map[string]map[chan struct{}]struct{}
	lists   map[string][]string // in order
	count   int64
}

// NewLocal returns an empty Local.
func NewLocal() *Local {
	return &Local{
		holders: map[string]string{}, waiters: map[string]map[chan struct{}]struct{}{},
		lists: map[string][]string{},
	}
}

// Acquire takes the lease called name for holder, and reports whether it is
// holder's now.
func (l *Local) Acquire(name, holder string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, held := l.holders[name]; held {
		return h == holder
	}
	l.holders[name] = holder
	return true
}

// Count returns a number that is greater each time, from 1.
func (l *Local) Count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.count
}

// Holder returns who holds the lease called name; empty if none does.
func (l *Local) Holder(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[name]
}

// Release gives up the lease called name, if holder has it.
func (l *Local) Release(name, holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders[name] == holder {
		delete(l.holders, name)
	}
}

// Watch returns a channel that gets a value after each Signal of topic; several
// signals may become one. Stop ends it.
func (l *Local) Watch(topic string) (c <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters[topic] == nil {
		l.waiters[topic] = map[chan struct{}]struct{}{}
	}
	l.waiters[topic][ch] = struct{}{}
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiters[topic], ch)
		if len(l.waiters[topic]) == 0 {
			delete(l.waiters, topic)
		}
	}
}

// Signal wakes those who watch topic. It never blocks.
func (l *Local) Signal(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.waiters[topic] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
