package session

import (
	"sync"
	"time"
)

// moment is a time by two clocks: the monotonic one, which is never set, and
// the wall clock, since the former stands still while a machine sleeps.
// Whichever has got further counts.
type moment struct{ at, wall time.Time }

// moment is now, where leases are stored.
func (s *Store) moment() (m moment) {
	if !s.exclusive {
		m.at, m.wall = time.Now(), s.now().Round(0)
	}
	return m
}

// since is how much time has passed, at least by one clock.
func (s *Store) since(m moment) time.Duration {
	return max(time.Since(m.at), s.now().Round(0).Sub(m.wall))
}

const (
	leaseMargin = 10 // a drive gives a stored lease up for lost with a tenth of it left
	leasePulse  = 12 // how often in its time a stored lease is looked at
)

// leaseClock counts a stored lease down. A lease ends by time: its drive counts
// from before the commit was sent that took or renewed it. One that a commit has
// given up, since there was nothing to do, can't run out. Where leases aren't
// stored, nothing runs out, and the clock is never looked at.
//
// All methods may be called from any goroutine. The drive's slot says which
// commit was sent.
type leaseClock struct {
	store *Store
	look  func() // called now and then, from a goroutine of its own

	mu       sync.Mutex // guards the rest; held over no clock but the monotonic one
	held     bool       // the last commit has the lease, and didn't give it up
	sent     moment     // when the last commit was
	renewed  moment     // when the one was that took, or last renewed, the lease
	pulse    *time.Timer
	renewing bool
	stopped  bool
}

// sending notes that a commit is about to be sent, which may renew the lease.
func (c *leaseClock) sending() {
	at := c.store.moment()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = at
}

// stored notes that the commit is stored, and whether it has the lease. It
// returns when the commit was sent.
func (c *leaseClock) stored(held bool) (sent moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.renewed = held, c.sent
	return c.sent
}

// now returns whether the last commit has the lease, and since when.
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

// safe is how old a lease may become before it is given up for lost.
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

// start has the lease looked at now and then, whatever the driver is busy with:
// a model that thinks for long, say. It is called after each commit, and does so
// once.
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

// tick is for each look: it sets when the next one is, and reports whether a
// third of the lease is over, so that it has to be renewed. The caller says when
// it is done with that.
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

// renewalDone notes that what tick asked for was done, or tried.
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
