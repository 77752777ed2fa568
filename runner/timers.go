package runner

import (
	"sync"
	"time"
)

// timers wait until sessions are to be looked at again, one for each session.
// The zero value is ready. All methods may be called from any goroutine.
type timers struct {
	mu     sync.Mutex // guards the rest; held over no call
	all    map[string]*time.Timer
	closed bool
}

// set has f called after a while, in a goroutine of its own, in place of what
// the session waited for before.
func (ts *timers) set(id string, after time.Duration, f func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return
	}
	if t := ts.all[id]; t != nil {
		t.Stop()
	}
	if ts.all == nil {
		ts.all = map[string]*time.Timer{}
	}
	var t *time.Timer
	t = time.AfterFunc(after, func() {
		ts.mu.Lock()
		if ts.all[id] == t {
			delete(ts.all, id)
		}
		ts.mu.Unlock()
		f()
	})
	ts.all[id] = t
}

// unset has the session wait for nothing.
func (ts *timers) unset(id string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[id]; t != nil {
		t.Stop()
		delete(ts.all, id)
	}
}

// close stops the timers; none is set any more.
func (ts *timers) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		t.Stop()
	}
	ts.all, ts.closed = nil, true
}
