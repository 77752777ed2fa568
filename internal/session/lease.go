package session

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// fate is whether a drive still has its session. All methods may be called from
// any goroutine.
type fate struct {
	mu       sync.Mutex // guards the rest; held over no call
	lost     bool
	released bool
	onLost   func(error)
}

// isLost reports whether the session is lost.
func (f *fate) isLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// isOver reports whether the drive has lost the session, or given it up.
func (f *fate) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost || f.released
}

// lose notes that the session is lost, and why, and tells that the first time.
func (f *fate) lose(why error) error {
	f.mu.Lock()
	tell := f.onLost
	if f.lost {
		tell = nil
	}
	f.lost = true
	f.mu.Unlock()
	if tell != nil {
		tell(why)
	}
	return why
}

// abandon notes that the session is lost, and tells nobody.
func (f *fate) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = true
}

// release notes that the session is given up, and reports whether it was not
// before.
func (f *fate) release() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.released
	f.released = true
	return !was
}

// standing refuses a drive that has ended, or is known to have lost its lease.
// One that has run out is lost for good, also if no other drive has taken it.
// One that a commit has given up, since there was nothing to do, can't run out:
// no body relies on it, and if no other drive has the session, the next commit
// takes it again.
func (d *Drive) standing() error {
	switch {
	case d.fate.isOver():
		return fmt.Errorf("%w: session %q, drive %d", ErrFenced, d.id, d.began().epoch)
	case d.clock.ranOut():
		return d.fate.lose(fmt.Errorf("%w: session %q: the lease of %v ran out before it was renewed",
			ErrFenced, d.id, d.store.lease))
	}
	return nil
}

// OnLost has f called with the reason as soon as the lease is known to be lost:
// when another drive has it, or its time is over. F must not wait for the
// drive.
func (d *Drive) OnLost(f func(error)) {
	d.fate.mu.Lock()
	defer d.fate.mu.Unlock()
	d.fate.onLost = f
}

// Ready renews a lease of which too little is left to enter a body. One that is
// known to be lost is ErrFenced.
func (d *Drive) Ready(ctx context.Context) error {
	if err := d.standing(); err != nil || !d.clock.isShort() {
		return err
	}
	return d.commit(ctx, touch)
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
	if d.news.isDue() {
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
	if d.clock.isShort() {
		return fmt.Errorf("%w: session %q: too little of the lease is left to enter a body", ErrNoAnswer, d.id)
	}
	return nil
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

// checkLease renews the lease when a third of it is over, and tells when it is
// lost.
func (d *Drive) checkLease() {
	if d.standing() == nil && d.clock.tick() {
		d.renew()
	}
}

// renew commits nothing but that the drive is there. A commit that is under way
// does as well.
func (d *Drive) renew() {
	defer d.clock.renewalDone()
	if !d.slot.tryEnter() {
		return
	}
	_ = d.slot.use(func() error {
		if d.holds() {
			_ = d.update(d.slot.alive(), touch) // a failure is tried again at the next look
		}
		return nil
	})
}

// Release gives the lease up. A stored lease that a commit has not given up
// already ends by itself.
func (d *Drive) Release() {
	if !d.fate.release() {
		return
	}
	d.news.stop()
	d.clock.stop()
	d.store.local.Release(leaseName(d.id), d.holder)
}

// Abandon gives the lease up although bodies still run: from here on, whatever
// they come back with is refused.
func (d *Drive) Abandon() {
	d.fate.abandon()
	d.slot.abandon()
	d.Release()
}
