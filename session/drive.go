package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Drive is the right to drive a session, and the one way in which a driver writes to it. At most one drive holds a session;
// a drive that lost it is refused with ErrFenced. Its methods may be called from many goroutines.
//
// Where the engine belongs to one process, the lease lives in memory and is void with the process. Elsewhere it is stored in
// the head, ends by time, and is renewed by each commit.
type Drive struct {
	store    *Store
	id       string
	holder   string // in Local
	followed string // the topic of those who follow the session

	before Transition // d.check
	after  func(*Tx)  // d.hold

	mu       sync.Mutex
	head     *head
	epoch    int
	taken    bool      // the lease is committed
	heir     bool      // the head says that another drive holds it, which is dead
	marked   bool      // it is to be known of this drive that it began, in case it dies
	notUntil time.Time // workers wait until then, see TriedAgain
	keep     bool      // the drive goes on, though the head doesn't show it
	rides    bool      // something rides that is more than the lease
	leaving  bool
	lost     bool
	released bool
	renewed  time.Time // monotonic: when the lease was last committed
	renewal  *time.Timer
}

// New says what a session that doesn't exist yet is to begin with.
type New struct{ User, Agent string }

// Drive takes the lease of a session, or says who has it with a *BusyError. With n, a session that isn't there is begun, and one
// of another user is ErrWrongUser. Nothing is committed yet.
func (s *Store) Drive(ctx context.Context, id string, n *New) (*Drive, error) {
	holder := newCommitID() // any id that is not another one's
	d := &Drive{store: s, id: id, holder: string(holder[:]), followed: followTopic(id)}
	d.before, d.after = d.check, d.hold
	if s.exclusive && !s.local.Acquire(leaseName(id), d.holder) {
		return nil, s.busy(ctx, id, n)
	}
	var fresh func() *State
	if n != nil {
		fresh = func() *State {
			return &State{Version: Version, ID: id, User: n.User, Agent: n.Agent, Created: s.Now()}
		}
	}
	var err error
	if d.head, err = s.head(ctx, id, fresh); err == nil {
		err = n.own(d.head.state)
	}
	if err == nil {
		d.head.driver = true
		begins := d.head.rev == 0
		d.head.base = func(tx *Tx) error {
			if err := n.begun(tx.State, begins); err != nil {
				return err
			}
			return d.take(tx)
		}
		_, err = d.head.open(ctx)
	}
	if err != nil {
		d.Release()
		return nil, err
	}
	return d, nil
}

// own refuses a session of another user.
func (n *New) own(st *State) error {
	if n != nil && n.User != st.User {
		return fmt.Errorf("session %q: %w", st.ID, ErrWrongUser)
	}
	return nil
}

// begun refuses a session that somebody else has begun since this drive found none: another user, or with another agent.
func (n *New) begun(st *State, begins bool) error {
	if err := n.own(st); err != nil {
		return err
	}
	if begins && n.Agent != st.Agent {
		return &BusyError{Session: st.ID}
	}
	return nil
}

// busy refuses a session that another drive in this process holds: without a word about that, if it is another user's.
func (s *Store) busy(ctx context.Context, id string, n *New) error {
	if n != nil {
		if st, err := s.Load(ctx, id); err == nil && n.own(st) != nil {
			return n.own(st)
		}
	}
	return &BusyError{Session: id}
}

func leaseName(session string) string { return "lease " + session }

// driven says whether some drive holds the session.
func (s *Store) driven(st *State) bool {
	if s.exclusive {
		return s.local.Holder(leaseName(st.ID)) != ""
	}
	return st.Held && st.LeaseEnd.After(s.Now())
}

// Driven says whether some drive holds the session, and until when, if that is known.
func (s *Store) Driven(st *State) (held bool, until time.Time) {
	return s.driven(st), st.LeaseEnd
}

// take makes the lease this drive's. It rides with the first commit.
func (d *Drive) take(tx *Tx) error {
	s := d.store
	if !s.exclusive && tx.Held && tx.LeaseEnd.After(tx.Now) {
		return &BusyError{Session: tx.ID, Until: tx.LeaseEnd}
	}
	if !tx.Deleted.IsZero() {
		return fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	}
	d.takeOver(tx)
	tx.touch()
	tx.Version = Version
	tx.Epoch++
	d.epoch = tx.Epoch
	d.hold(tx)
	return nil
}

// hold writes into the head whether the drive goes on: while there is work, or bodies run.
func (d *Drive) hold(tx *Tx) {
	tx.Held = !d.leaving && (d.keep || Next(tx.State, tx.Now).Working())
	tx.LeaseEnd = time.Time{}
	if tx.Held && !d.store.exclusive {
		tx.LeaseEnd = tx.Now.Add(d.store.lease)
	}
}

// Secure makes sure that the lease is durable where it must be before anything runs: where leases are stored, and where an
// earlier drive died, or may have, so that deaths are counted. It says whether that took a commit, which may have brought what others have
// done. A lease that is known to be lost is ErrFenced.
func (d *Drive) Secure(ctx context.Context) (committed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost {
		return false, d.fenced()
	}
	if d.taken || d.store.exclusive && !d.marked {
		return false, nil
	}
	return true, d.update(ctx)
}

// Ready renews a lease of which too little is left to enter a body. One that is known to be lost is ErrFenced.
func (d *Drive) Ready(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost {
		return d.fenced()
	}
	if !d.stale() {
		return nil
	}
	return d.update(ctx, touch)
}

// stale says that less than a third is left of a stored lease, by the monotonic clock.
func (d *Drive) stale() bool {
	return !d.store.exclusive && (!d.taken || time.Since(d.renewed) > d.store.lease*2/3)
}

// Update commits transitions, with all that rides. A lease that was lost is ErrFenced.
func (d *Drive) Update(ctx context.Context, ts ...Transition) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.update(ctx, ts...)
}

func (d *Drive) update(ctx context.Context, ts ...Transition) error {
	if d.lost {
		return d.fenced()
	}
	var at time.Time
	if !d.store.exclusive {
		at = time.Now()
	}
	err := d.head.update(ctx, d.before, d.after, ts...)
	if err != nil {
		d.head.rollback(ctx)
	}
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, ErrDeleted), errors.Is(err, ErrBusy), errors.Is(err, ErrWrongUser):
		d.lost = true
	case err == nil:
		d.taken, d.rides, d.renewed = true, false, at
		d.renewLater(d.RenewEvery())
		d.store.local.Signal(d.followed)
	}
	return err
}

// Ride applies transitions and leaves it to the next commit to store them: for what follows from what is stored.
func (d *Drive) Ride(ctx context.Context, ts ...Transition) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost {
		return d.fenced()
	}
	d.rides = true
	err := d.head.ride(ctx, func(tx *Tx) error {
		if err := d.check(tx); err != nil {
			return err
		}
		for _, t := range ts {
			if err := t(tx); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		d.head.rollback(ctx)
	case d.head.tx.full():
		err = d.update(ctx)
	}
	return err
}

// Drop forgets what rides, but for the lease: it was for something that is not going to be.
func (d *Drive) Drop(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rides {
		d.rides, d.head.riding = false, nil
		d.head.rollback(ctx)
	}
}

// Rides says whether something rides, and is not stored yet, but for the lease.
func (d *Drive) Rides() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rides
}

// Taken says whether this drive has committed anything.
func (d *Drive) Taken() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken
}

// Outrun says whether transitions that rode were dropped, since this was last asked: what the driver concluded from them is void.
func (d *Drive) Outrun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	outrun := d.head.outrun
	d.head.outrun = false
	return outrun
}

// check refuses a drive whose lease another one has taken.
func (d *Drive) check(tx *Tx) error {
	switch {
	case !tx.Deleted.IsZero():
		return fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	case tx.Epoch != d.epoch:
		return fmt.Errorf("%w: session %q, drive %d; drive %d has it", ErrFenced, tx.ID, d.epoch, tx.Epoch)
	}
	return nil
}

func (d *Drive) fenced() error {
	return fmt.Errorf("%w: session %q, drive %d", ErrFenced, d.id, d.epoch)
}

// Refresh takes up what others have committed, and says whether there was anything.
func (d *Drive) Refresh(ctx context.Context) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, err := d.head.refresh(ctx)
	if err != nil {
		d.head.rollback(ctx)
		return false, err
	}
	switch st := d.head.state; {
	case !st.Deleted.IsZero():
		d.lost = true
		return changed, fmt.Errorf("%w: %q", ErrDeleted, d.id)
	case st.Epoch != d.epoch:
		d.lost = true
		return changed, d.fenced()
	}
	return changed, nil
}

// Look calls f with the head as it will be with what rides, so that it can read what lies beside the head. F must not change it.
func (d *Drive) Look(ctx context.Context, f func(*Tx) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	tx, err := d.head.open(ctx)
	if err != nil {
		d.head.rollback(ctx)
		return err
	}
	return f(tx)
}

// Record reads the record of a settled call, also one that rides and is not stored yet.
func (d *Drive) Record(ctx context.Context, call string) (r Record, err error) {
	err = d.Look(ctx, func(tx *Tx) error {
		found, err := tx.read(recordKey(d.id, call), &r)
		if err == nil && !found {
			err = fmt.Errorf("%w: %s in session %q", ErrUnknownCall, call, d.id)
		}
		return err
	})
	return r, err
}

// Keep says whether the drive goes on although the head doesn't show any work: bodies run whose calls have settled, or the model
// is to be called again after a while.
func (d *Drive) Keep(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep = on
}

// MayEnter says whether a body may be entered: a third of the lease must be left, by the monotonic clock.
func (d *Drive) MayEnter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost || d.stale() {
		return d.fenced()
	}
	return nil
}

// RenewEvery is how often a stored lease is renewed while nothing else is committed; zero: never.
func (d *Drive) RenewEvery() time.Duration {
	if d.store.exclusive {
		return 0
	}
	return d.store.lease / 3
}

// renewLater has the lease renewed after a while, whatever the driver is busy with: a model that thinks for long, say.
func (d *Drive) renewLater(after time.Duration) {
	switch {
	case after == 0:
	case d.renewal == nil:
		d.renewal = time.AfterFunc(after, d.renew)
	default:
		d.renewal.Reset(after)
	}
}

func (d *Drive) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost || d.released || !d.head.state.Held {
		return
	}
	if err := d.update(context.Background(), touch); err != nil {
		d.renewLater(d.RenewEvery() / 4)
	}
}

func touch(tx *Tx) error { tx.touch(); return nil }

// Rest commits what rides and gives a stored lease up, if there is nothing to do: this drive's, or that of one that died and left
// nothing to do, which would be due for ever. Commits that left nothing to do have done so already; then this does nothing.
func (d *Drive) Rest(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost || !d.rides && !(d.taken && d.head.state.Held) && (d.taken || !d.heir) {
		return nil
	}
	return d.update(ctx, touch)
}

// Leave ends the drive with the transitions given, whatever is left to do. Of a drive that committed nothing, and has nothing to
// commit, no trace is left.
func (d *Drive) Leave(ctx context.Context, ts ...Transition) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.release()
	if d.lost || len(ts) == 0 && !(d.taken && d.head.state.Held) {
		return nil
	}
	d.leaving = true
	return d.update(ctx, append(ts, touch)...)
}

// Release gives the lease up. A stored lease that a commit has not given up already ends by itself.
func (d *Drive) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release()
}

func (d *Drive) release() {
	d.released = true
	if d.renewal != nil {
		d.renewal.Stop()
	}
	d.store.local.Release(leaseName(d.id), d.holder)
}

// Abandon gives the lease up although bodies still run: from here on, whatever they come back with is refused.
func (d *Drive) Abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
	d.release()
}

// View calls f with the head as this drive knows it. F must not change it nor keep it.
func (d *Drive) View(f func(*State)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.head.state)
}
