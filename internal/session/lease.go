package session

import (
	"context"
	"fmt"
	"time"
)

// A stored lease ends by time. Its drive counts from before the commit was sent
// that took or renewed it, by two clocks: the monotonic one, which is never
// set, and the wall clock, since the former stands still while a machine
// sleeps. Whichever has got further counts.

// moment is a time by both clocks.
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
	leaseMargin = 10                     // a drive gives a stored lease up for lost with a tenth of it left
	leasePulse  = 12                     // how often in its time a stored lease is looked at
	leaseNews   = 100 * time.Millisecond // what is known of a shared head for longer is read again before a body
)

// standing refuses a drive that has ended, or is known to have lost its lease.
// One that has run out is lost for good, also if no other drive has taken it.
// One that a commit has given up, since there was nothing to do, can't run out:
// no body relies on it, and if no other drive has the session, the next commit
// takes it again.
func (d *Drive) standing() error {
	d.mu.Lock()
	gone, held, renewed := d.lost || d.released, d.held, d.renewed
	d.mu.Unlock()
	switch {
	case gone:
		return d.fenced()
	case d.store.exclusive || !held || d.store.since(renewed) < d.store.lease-d.store.lease/leaseMargin:
		return nil
	}
	return d.lose(fmt.Errorf("%w: session %q: the lease of %v ran out before it was renewed", ErrFenced, d.id, d.store.lease))
}

func (d *Drive) fenced() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Errorf("%w: session %q, drive %d", ErrFenced, d.id, d.epoch)
}

// lose notes that the lease is lost, and why.
func (d *Drive) lose(why error) error {
	d.mu.Lock()
	tell := d.onLost
	if d.lost {
		tell = nil
	}
	d.lost = true
	d.mu.Unlock()
	if tell != nil {
		tell(why)
	}
	return why
}

// OnLost has f called with the reason as soon as the lease is known to be lost:
// when another drive has it, or its time is over. F must not wait for the
// drive.
func (d *Drive) OnLost(f func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onLost = f
}

// Ready renews a lease of which too little is left to enter a body. One that is
// known to be lost is ErrFenced.
func (d *Drive) Ready(ctx context.Context) error {
	if err := d.standing(); err != nil || !d.stale() {
		return err
	}
	return d.commit(ctx, touch)
}

// stale reports whether less than a third is left of a stored lease.
func (d *Drive) stale() bool {
	if d.store.exclusive {
		return false
	}
	d.mu.Lock()
	held, renewed := d.held, d.renewed
	d.mu.Unlock()
	return !held || d.store.since(renewed) > d.store.lease*2/3
}

// MayEnter is the last look before the body of a call is entered, after
// whatever was waited for. It reports why the body must not be: the lease is
// lost, or too little of it is left and it can't be renewed; the call has
// settled, was cancelled, or its run was ended. The head is read again where
// others are known to have committed, or long have had the time.
func (d *Drive) MayEnter(ctx context.Context, call string) error {
	if err := d.Ready(ctx); err != nil {
		return err
	}
	if d.outdated() {
		if _, err := d.Refresh(ctx); err != nil {
			return err
		}
	}
	var err error
	d.View(func(st *State) {
		switch c := st.Call(call); {
		case c == nil || c.Status == Settled:
			err = fmt.Errorf("%w: call %s", ErrSettled, call)
		case c.Cancel != nil || st.Ending != nil:
			err = fmt.Errorf("%w: call %s", ErrCancelled, call)
		}
	})
	if err != nil {
		return err
	}
	return d.Stands()
}

// Stands reports why a body that MayEnter has let through must not be entered
// after all, by what is known without asking the store.
func (d *Drive) Stands() error {
	if err := d.standing(); err != nil {
		return err
	}
	if d.stale() {
		return fmt.Errorf("%w: session %q: too little of the lease is left to enter a body", ErrNoAnswer, d.id)
	}
	return nil
}

// outdated reports whether others may have committed since the head was last
// read or written.
func (d *Drive) outdated() bool {
	d.mu.Lock()
	news, known := d.news || len(d.heard) > 0, d.known
	d.mu.Unlock()
	// Where one process has the engine, all commits are heard.
	return news || !d.store.exclusive && d.store.since(known) > leaseNews
}

// RenewEvery is how often a stored lease is renewed while nothing else is
// committed, and how often its driver looks for what other processes have done;
// zero: never.
func (d *Drive) RenewEvery() time.Duration {
	if d.store.exclusive {
		return 0
	}
	return d.store.lease / 3
}

// beat begins to look at a stored lease now and then, whatever the driver is
// busy with: a model that thinks for long, say.
func (d *Drive) beat() {
	if d.store.exclusive {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pulse == nil && !d.released {
		d.pulse = time.AfterFunc(d.store.lease/leasePulse, d.checkLease)
	}
}

// checkLease renews the lease when a third of it is over, and tells when it is
// lost.
func (d *Drive) checkLease() {
	if d.standing() != nil {
		return
	}
	d.mu.Lock()
	renewed := d.renewed
	d.mu.Unlock()
	age := d.store.since(renewed)
	d.mu.Lock()
	due := d.held && age >= d.store.lease/3 && !d.renewing && !d.released
	d.renewing = d.renewing || due
	if !d.released {
		next := d.store.lease / leasePulse
		if d.held {
			next = max(min(next, d.store.lease-d.store.lease/leaseMargin-age), time.Millisecond)
		}
		d.pulse.Reset(next)
	}
	d.mu.Unlock()
	if due {
		d.renew()
	}
}

// renew commits nothing but that the drive is there. A commit that is under way
// does as well.
func (d *Drive) renew() {
	defer func() {
		d.mu.Lock()
		d.renewing = false
		d.mu.Unlock()
	}()
	select {
	case d.slot <- struct{}{}:
	default:
		return
	}
	returned := false
	defer d.unwind(&returned)
	if d.holds() {
		_ = d.update(d.alive(), touch) // a failure is tried again at the next look
	}
	returned = true
	d.exit()
}

// Release gives the lease up. A stored lease that a commit has not given up
// already ends by itself.
func (d *Drive) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release()
}

func (d *Drive) release() {
	if d.released {
		return
	}
	d.released = true
	d.unwatch()
	if d.pulse != nil {
		d.pulse.Stop()
	}
	d.store.local.Release(leaseName(d.id), d.holder)
}

// Abandon gives the lease up although bodies still run: from here on, whatever
// they come back with is refused.
func (d *Drive) Abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
	if d.behind != nil {
		d.behind()
	}
	d.release()
}
