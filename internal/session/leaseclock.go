package session

import (
	"sync"
	"time"
)

// instant is a time by two clocks: the monotonic one, which is never set, and
// the wall clock, since the monotonic one stands still while a machine sleeps.
// The one that has got further counts.
type instant struct{ at, wall time.Time }

// instant returns now, where leases are stored, and otherwise zero.
func (s *Store) instant() (i instant) {
	if !s.exclusive {
		i.at, i.wall = time.Now(), s.wall().Round(0)
	}
	return i
}

// since returns how much time has passed, by the clock that has got further.
func (s *Store) since(i instant) time.Duration {
	return max(time.Since(i.at), s.wall().Round(0).Sub(i.wall))
}

const (
	leaseMargin = 10 // with a tenth of it left, a stored lease counts as lost
	leasePulse  = 12 // how often in its time a stored lease is looked at
)

// leaseClock counts a stored lease down. A stored lease ends by time. Its drive
// counts from before the commit was sent that took or renewed it. A lease that
// a commit has given up, since there was nothing to do, can't run out. Where
// leases aren't stored, nothing runs out, and the clock is never looked at.
//
// All methods may be called from any goroutine. Sending and stored belong
// together: the goroutine that has the slot calls both.
type leaseClock struct {
	store *Store
	look  func() // called leasePulse times a lease, from a goroutine of its own

	mu       sync.Mutex // guards the rest; held over no clock but the monotonic one
	held     bool       // the last commit took or kept the lease
	sent     instant    // when the last commit was sent
	renewed  instant    // when the commit was sent that last took or renewed the lease
	pulse    *time.Timer
	renewing bool // a renewal is under way
	stopped  bool
}

// sending notes that a commit is about to be sent, which may renew the lease.
func (c *leaseClock) sending() {
	at := c.store.instant()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = at
}

// stored notes that the commit is stored, and whether it has the lease. It
// returns when the commit was sent.
func (c *leaseClock) stored(held bool) (sent instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.renewed = held, c.sent
	return c.sent
}

// now reports whether the last commit has the lease, and returns how old it is.
func (c *leaseClock) now() (held bool, age time.Duration) {
	c.mu.Lock()
	held, renewed := c.held, c.renewed
	c.mu.Unlock()
	if held {
		age = c.store.since(renewed)
	}
	return held, age
}

// isHeld reports whether the last commit has the lease.
func (c *leaseClock) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// safe returns how old a lease may become before it counts as lost.
func (c *leaseClock) safe() time.Duration { return c.store.lease - c.store.lease/leaseMargin }

// ranOut reports whether the time of the lease is over.
func (c *leaseClock) ranOut() bool {
	if c.store.exclusive {
		return false
	}
	held, age := c.now()
	return held && age >= c.safe()
}

// isShort reports whether less than a third of the lease is left.
func (c *leaseClock) isShort() bool {
	if c.store.exclusive {
		return false
	}
	held, age := c.now()
	return !held || age > c.store.lease*2/3
}

// start begins the looks at the lease. They go on while the driver is busy:
// with a model that thinks for long, say. It is called after each commit, and
// only the first call begins them.
func (c *leaseClock) start() {
	if c.store.exclusive {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulse == nil && !c.stopped {
		c.pulse = time.AfterFunc(c.store.lease/leasePulse, c.look)
	}
}

// tick is called at each look. It sets when the next look is, and reports
// whether a third of the lease is over, so that it has to be renewed. The
// caller then calls renewalDone.
func (c *leaseClock) tick() (renew bool) {
	held, age := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	next := c.store.lease / leasePulse
	if held {
		next = max(min(next, c.safe()-age), time.Millisecond)
	}
	c.pulse.Reset(next)
	renew = held && age >= c.store.lease/3 && !c.renewing
	c.renewing = c.renewing || renew
	return renew
}

// renewalDone notes that the renewal that tick asked for was made, or has
// failed.
func (c *leaseClock) renewalDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewing = false
}

// stop ends the looks.
func (c *leaseClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.pulse != nil {
		c.pulse.Stop()
	}
}
