package session

import (
	"maps"
	"slices"
	"sync"
)

// Listeners are functions of this process that are told of something, each time
// that it happens. The zero value is ready. All methods may be called from any
// goroutine.
type Listeners[T any] struct {
	mu  sync.Mutex // guards all; held over no call
	all map[*func(T)]bool
}

// Add has f called, until stop is. F must not wait.
func (l *Listeners[T]) Add(f func(T)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*func(T)]bool{}
	}
	l.all[&f] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, &f)
	}
}

// Tell calls the functions.
func (l *Listeners[T]) Tell(what T) {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.all))
	l.mu.Unlock()
	for _, f := range all {
		(*f)(what)
	}
}

// OnChange has f called after each commit of this Store, with its session. F
// must not wait.
func (s *Store) OnChange(f func(session string)) (stop func()) { return s.changes.Add(f) }

// changed tells those who follow a session in this process, and those who are
// told of all.
func (s *Store) changed(id string) {
	s.local.Signal(followTopic(id))
	s.changes.Tell(id)
}
