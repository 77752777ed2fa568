package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermata-ai/fermata/kvstore"
)

// Etcd tells no time, but a leader counts down what is left of a lease. So the
// clock of a store is a lease that nothing hangs on, and an entry with the time
// at which the lease was granted: what has gone of the lease since is the time
// that has passed. Each process asks now and then, and goes by its own monotonic
// clock in between.
//
// A new leader gives each lease its full length again. So a reading counts only
// for the term of raft in which the lease was granted. In a new term, whichever
// process is first grants a new lease, and carries the time on as it knows it.
type clock struct {
	s    *Store
	key  string
	time kvstore.Timekeeper
	term atomic.Uint64 // that of the last time that it was asked
	turn chan struct{} // has a value when an answer had a later term

	// These are of the one goroutine that asks.
	known epoch
	stale int   // how often in a row there was no lease to go by
	spare int64 // a lease that is to be revoked, unless it was stored after all
	told  bool  // the last time failed, which is logged
}

// epoch is the clock from one lease to the next, as it is stored.
type epoch struct {
	Version int       `json:"version"`
	Term    uint64    `json:"term"`
	Lease   int64     `json:"lease"`
	Begun   time.Time `json:"begun"` // when the lease was granted, by the clock
}

const (
	epochVersion = 1
	// leaseLength is that of the clock's leases, in seconds: some thirty years.
	leaseLength = 1_000_000_000
	// askEvery is how often a process asks, and askSoon how often while it
	// doesn't know the time.
	askEvery, askSoon = 10 * time.Second, time.Second
	// patience is for how many times that it asks a process which doesn't know
	// the time leaves it to others to carry the clock on: those that know it ask
	// within askEvery.
	patience = 30
	// apart is how far the time of a lease may be from this machine's clock, for a
	// process that doesn't know it yet. A cluster that was restored counts terms
	// anew, so that a lease may seem to be of this one; one that slept counted
	// nothing.
	apart = 15 * time.Minute
	// sharp is how exactly a time has to be known to be carried on.
	sharp = 2 * time.Second
)

func newClock(s *Store, key string) *clock {
	return &clock{s: s, key: key, turn: make(chan struct{}, 1)}
}

// saw takes in the term of an answer. It has the process ask once: if that
// fails, further answers of the term don't.
func (c *clock) saw(term uint64) {
	for was := c.term.Load(); ; was = c.term.Load() {
		if term <= was {
			return
		}
		if c.term.CompareAndSwap(was, term) {
			break
		}
	}
	select {
	case c.turn <- struct{}{}:
	default:
	}
}

// run asks until ctx ends.
func (c *clock) run(ctx context.Context) {
	for ctx.Err() == nil {
		every := askEvery
		if _, _, known := c.now(); !known || c.told {
			every = askSoon
		}
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-c.turn:
		case <-ctx.Done():
		}
		timer.Stop()
		c.ask(ctx)
	}
}

// ask takes a reading. What fails is asked again later: meanwhile the time is
// known less exactly. The first of several failures is logged.
func (c *clock) ask(ctx context.Context) {
	err := c.tryAsk(ctx)
	if err != nil && !c.told && ctx.Err() == nil {
		c.s.log.Warn("kvstore/etcd: the cluster's clock can't be asked, so its time is known less "+
			"exactly", "err", err)
	}
	c.told = err != nil
}

// now returns the time, and whether it is known so exactly that it may be
// carried on.
func (c *clock) now() (now time.Time, within time.Duration, known bool) {
	now, within = c.time.Now()
	return now, within, !now.IsZero() && within <= sharp
}

// tryAsk takes a reading, and first sees to it that there is a lease of the term.
func (c *clock) tryAsk(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	for range 3 {
		reading, asked := c.read(ctx)
		stored, at, term, err := c.stored(ctx)
		if err != nil || stored.Version > epochVersion {
			return err
		}
		left := c.revoke(ctx, stored)
		switch {
		case stored.Term == term && stored != c.known:
			c.known = stored
			continue
		case stored.Term != term || reading.gone: // there is no lease of the term
		case !reading.ok:
			return reading.err
		case c.observe(asked, reading.time):
			return left
		default: // a time that can't be
		}
		if left != nil {
			return left // one more lease would be left
		}
		if again, err := c.begin(ctx, stored, at); !again {
			return err
		}
	}
	return nil
}

// reading is what is left of the known lease, as a time.
type reading struct {
	time time.Time // it is this, or up to a second more
	ok   bool
	gone bool // there is no such lease
	err  error
}

func (c *clock) read(ctx context.Context) (r reading, asked time.Time) {
	asked = time.Now()
	if c.known.Lease == 0 {
		return r, asked
	}
	left, err := c.s.client.TimeToLive(ctx, clientv3.LeaseID(c.known.Lease))
	switch {
	case err != nil:
		r.err = err
	case left.TTL > left.GrantedTTL:
	case left.TTL < 0:
		r.gone = true
	default: // etcd counts whole seconds, and leaves the rest away
		passed := time.Duration(left.GrantedTTL-left.TTL-1) * time.Second
		r.time, r.ok = c.known.Begun.Add(passed), true
	}
	return r, asked
}

// stored reads the entry, and the term. The read is linearizable, and comes
// after the reading: so that is of no later term.
func (c *clock) stored(ctx context.Context) (e epoch, at int64, term uint64, err error) {
	got, err := c.s.client.Get(ctx, c.key)
	if err != nil {
		return e, 0, 0, err
	}
	if len(got.Kvs) > 0 {
		at = got.Kvs[0].ModRevision
		if json.Unmarshal(got.Kvs[0].Value, &e) != nil {
			e = epoch{} // it is written anew
		}
	}
	c.term.Store(got.Header.RaftTerm)
	return e, at, got.Header.RaftTerm, nil
}

// observe takes in a reading, and reports whether it can be. To a process that
// doesn't know the time, it isn't one that this machine's clock is far from.
func (c *clock) observe(asked, engine time.Time) bool {
	if _, _, known := c.now(); !known && time.Since(engine).Abs() > apart {
		return false
	}
	// The leader's clock showed this time at some moment since a second before it
	// was asked.
	c.time.Observe(asked.Add(-time.Second), engine)
	c.stale = 0
	return true
}

// begin has the clock go on by a new lease, and reports whether there may be one
// now, this process's or another's. The time is that which this process knows;
// one that doesn't waits for those that do, and then takes its machine's.
func (c *clock) begin(ctx context.Context, was epoch, at int64) (again bool, err error) {
	_, _, known := c.now()
	if c.stale++; !known && at > 0 && c.stale <= patience {
		return false, nil
	}
	asked := time.Now()
	granted, err := c.s.client.Grant(ctx, leaseLength)
	if err != nil {
		return false, err
	}
	next := epoch{Version: epochVersion, Term: granted.RaftTerm, Lease: int64(granted.ID),
		Begun: time.Now().UTC().Truncate(time.Millisecond)}
	if known { // as near to this machine's clock as what is known allows
		now, within, _ := c.now()
		next.Begun = nearest(next.Begun, now.Add(-within), now.Add(within)).UTC()
	}
	c.spare = next.Lease
	if time.Since(asked) >= time.Second {
		return true, nil
	}
	value, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	done, err := c.s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(c.key), "=", at)).
		Then(clientv3.OpPut(c.key, string(value))).Commit()
	switch {
	case isCertain(err):
		return false, errors.Join(err, c.revoke(ctx, was))
	case err != nil:
		return false, err // perhaps it is stored, as the next time tells
	case done.Succeeded:
		c.spare = was.Lease
	}
	return true, nil
}

// revoke revokes the lease that is spare, unless it is the one that is stored.
func (c *clock) revoke(ctx context.Context, stored epoch) error {
	if c.spare != 0 && c.spare != stored.Lease {
		_, err := c.s.client.Revoke(ctx, clientv3.LeaseID(c.spare))
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
	}
	c.spare = 0
	return nil
}

// nearest returns the time from low to high that is nearest to t.
func nearest(t, low, high time.Time) time.Time {
	switch {
	case t.Before(low):
		return low
	case t.After(high):
		return high
	}
	return t
}
