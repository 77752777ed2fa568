package session

import (
	"maps"
	"slices"
	"sync"
)

// changes are those who are told of the commits of one Store. All methods may be
// called from any goroutine.
type changes struct {
	mu  sync.Mutex // guards all; held over no call
	all map[*func(string)]bool
}

// OnChange has f called after each commit of this Store, with its session. F
// must not wait.
func (s *Store) OnChange(f func(session string)) (stop func()) {
	c := &s.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*func(string)]bool{}
	}
	c.all[&f] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, &f)
	}
}

// changed tells those who follow a session in this process, and those who are
// told of all.
func (s *Store) changed(id string) {
	s.local.Signal(followTopic(id))
	c := &s.changes
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.all))
	c.mu.Unlock()
	for _, f := range all {
		(*f)(id)
	}
}
