package session

import (
	"sync"
	"time"
)

// A clock that processes have in common tells each of them when a stored lease
// ended, unless it is set meanwhile: then it tells of each lease that it is
// over, also of those whose drives live. So a process believes it about leases
// of a length only once it has itself seen it run for that long, beside its own
// monotonic clock. Until then a lease is over when this process has seen it
// unchanged for its length.

// steadyClock is how long the engine's clock has run as this process's
// monotonic clock has. All methods may be called from any goroutine.
type steadyClock struct {
	mu    sync.Mutex // guards the rest; held over no call
	since time.Time  // monotonic; zero: the engine's time isn't known
	told  time.Time  // the engine's time at since, or what it was least ahead by
}

// saw takes in a time that the engine's clock shows; known: it does.
func (c *steadyClock) saw(engine time.Time, known bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !known {
		c.since = time.Time{}
		return
	}
	ahead := engine.Sub(c.told.Add(now.Sub(c.since)))
	switch {
	case c.since.IsZero() || ahead > maxAhead: // it was set, or this machine slept
		c.since, c.told = now, engine.Round(0)
	case ahead < 0: // a later way ahead counts from here
		c.told = c.told.Add(ahead)
	}
}

// maxAhead is how far the clock may get ahead before it counts as set: half of
// what is allowed for anyway.
const maxAhead = ClockSkew / 2

// left returns how long the clock has yet to run until it has run for length.
func (c *steadyClock) left(length time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return length
	}
	return max(0, length-time.Since(c.since))
}

// leaseEnd returns when a stored lease is over at the latest, by the store's
// clock. Wait is for how long a process must have seen it unchanged, or the
// clock run.
func (s *Store) leaseEnd(stored time.Time, wait time.Duration) time.Time {
	end := stored.Add(s.maxSkew)
	if s.steady == nil {
		return end
	}
	now := s.Now() // which the clock is told of
	if from := now.Add(s.steady.left(wait)); from.After(now) && from.After(end) {
		return from
	}
	return end
}
