package session

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// fate is whether a lease was lost or given up. All methods may be called from
// any goroutine.
type fate struct {
	mu       sync.Mutex // guards the rest; held over no call
	lost     bool
	released bool
	onLost   func(error)
}

// isLost reports whether the lease is lost.
func (f *fate) isLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// isOver reports whether the lease is lost or given up.
func (f *fate) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost || f.released
}

// lose notes that the lease is lost. The first time it calls onLost with the
// reason, outside the lock.
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

// abandon notes that the lease is lost, and doesn't call onLost.
func (f *fate) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = true
}

// release notes that the lease is given up, and reports whether this is the
// first time.
func (f *fate) release() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.released
	f.released = true
	return !was
}

// standing refuses a drive that has ended, or is known to have lost its lease.
// A lease that has run out is lost for good, also if no other drive has taken
// it. A lease that a commit has given up, since there was nothing to do, can't
// run out: no body relies on it, and the next commit takes it again, unless
// another drive has the session.
func (l *Lease) standing() error {
	switch {
	case l.fate.isOver():
		return fmt.Errorf("%w: session %q, drive %d", ErrFenced, l.id, l.began().epoch)
	case l.clock.ranOut():
		return l.fate.lose(fmt.Errorf(
			"%w: session %q: the lease of %v ran out before it was renewed",
			ErrFenced, l.id, l.store.lease))
	}
	return nil
}

// OnLost has f called with the reason as soon as the lease is known to be lost:
// when another drive has it, or its time is over. F may be called from any
// goroutine, and must not wait for the drive.
func (l *Lease) OnLost(f func(error)) {
	l.fate.mu.Lock()
	defer l.fate.mu.Unlock()
	l.fate.onLost = f
}

// Ready renews the lease if too little of it is left to enter a body. If the
// lease is known to be lost, the error is ErrFenced.
func (l *Lease) Ready(ctx context.Context) error {
	if err := l.standing(); err != nil || !l.clock.isShort() {
		return err
	}
	return l.commit(ctx, touch)
}

// MayEnter is the last look before the body of a call is entered, after every
// wait. It returns why the body must not be entered: the lease is lost, or too
// little of it is left and it can't be renewed; the call has settled, was
// cancelled, or its run was ended. The head is read again if others are known
// to have committed, or have had time to.
func (l *Lease) MayEnter(ctx context.Context, call string) error {
	if err := l.Ready(ctx); err != nil {
		return err
	}
	if l.news.isDue() {
		if _, err := l.Refresh(ctx); err != nil {
			return err
		}
	}
	var err error
	l.View(func(st *State) {
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
	return l.Stands()
}

// Stands returns why a body that MayEnter has let through must not be entered
// after all, by what is known without asking the store.
func (l *Lease) Stands() error {
	if err := l.standing(); err != nil {
		return err
	}
	if l.clock.isShort() {
		return fmt.Errorf("%w: session %q: too little of the lease is left to enter a body",
			ErrNoAnswer, l.id)
	}
	return nil
}

// RenewEvery is how often a stored lease is renewed while nothing else is
// committed, and how often its driver looks for what other processes have done;
// zero: never.
func (l *Lease) RenewEvery() time.Duration {
	if l.store.exclusive {
		return 0
	}
	return l.store.lease / 3
}

// checkLease renews the lease when a third of it is over, and finds out when it
// is lost. The clock calls it from a goroutine of its own.
func (l *Lease) checkLease() {
	if l.standing() == nil && l.clock.tick() {
		l.renew()
	}
}

// renew commits nothing but that the drive lives. A commit that is under way
// does the same, so renew doesn't wait for the slot.
func (l *Lease) renew() {
	defer l.clock.renewalDone()
	if !l.slot.tryEnter() {
		return
	}
	_ = l.slot.use(func() error {
		if l.holds() {
			_ = l.update(l.slot.alive(), touch) // a failure is tried again at the next look
		}
		return nil
	})
}

// Release gives the lease up. A stored lease that a commit has not given up
// already ends by itself. Where leases aren't stored, such a session is put on
// the list of those that drives have left.
func (l *Lease) Release() {
	if !l.fate.release() {
		return
	}
	l.news.stop()
	l.clock.stop()
	look := l.leave()
	l.store.local.Release(leaseName(l.id), l.holder)
	if l.store.local.IsListed(passedList, l.id) {
		l.store.local.Strike(passedList, l.id)
		look = true
	}
	if look {
		l.store.local.Signal(workTopic)
	}
	l.store.local.Signal(followTopic(l.id)) // who see whether a drive holds the session
}

// Abandon gives the lease up although bodies still run. From here on, what they
// return is refused.
func (l *Lease) Abandon() {
	l.fate.abandon()
	l.slot.abandon()
	l.Release()
}
