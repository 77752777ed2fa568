package session

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Drive is the right to drive a session, and the one way in which a driver
// writes to it. At most one drive holds a session; a drive that lost it is
// refused with ErrFenced. Its methods may be called from many goroutines.
//
// Where the engine belongs to one process, the lease lives in memory and is void
// with the process. Elsewhere it is stored in the head, ends by time, and is
// renewed by each commit.
//
// Its parts have locks of their own, none of which is held over a call of the
// engine. Changes queue for the slot. What only looks, or ends the drive, waits
// neither for the slot nor for the engine, however long that takes for an
// answer.
type Drive struct {
	store    *Store
	id       string
	holder   string     // in Local
	followed string     // the topic of those who follow the session
	before   Transition // check, made once
	after    func(*Tx)  // hold, made once

	head  *head // which the goroutine that has the slot changes
	slot  slot
	clock leaseClock
	news  news
	fate  fate

	mu     sync.Mutex // guards course; held over no call
	course course
}

// course is how a drive began, and how far it has come.
type course struct {
	beginning
	taken   bool // the lease is committed
	keep    bool // the drive goes on, though the head doesn't show it
	rides   bool // something rides that is more than the lease
	leaving bool // its next commit is its last
}

// beginning is how a drive began, by the head that it found.
type beginning struct {
	epoch    int
	fence    int64     // where one process has the engine
	heir     bool      // by the head another drive holds it, which is dead
	marked   bool      // it is to be known of this drive that it began, in case it dies
	notUntil time.Time // workers wait until then, see TriedAgain
}

// began returns how the drive began.
func (d *Drive) began() beginning {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.course.beginning
}

// now returns how far the drive has come.
func (d *Drive) now() course {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.course
}

// note changes what is known of the drive's course.
func (d *Drive) note(f func(*course)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.course)
}

// New says what a session that doesn't exist yet is to begin with.
type New struct{ User, Agent string }

// Drive takes the lease of a session, or says who has it with a *BusyError. With n, a session that isn't there is begun, and one
// of another user is ErrWrongUser. Nothing is committed yet.
func (s *Store) Drive(ctx context.Context, id string, n *New) (*Drive, error) {
	holder := newCommitID() // any id that is not another one's
	d := &Drive{store: s, id: id, holder: string(holder[:]), followed: followTopic(id)}
	d.before, d.after = d.check, d.hold
	d.slot = slot{of: d, lasting: context.WithoutCancel(ctx), place: make(chan struct{}, 1)}
	d.clock.store, d.clock.look, d.news.store = s, d.checkLease, s
	if s.exclusive {
		if !s.local.Acquire(leaseName(id), d.holder) {
			return nil, s.busy(ctx, id, n)
		}
		d.course.fence = int64(s.incarnation)<<fenceDrives | s.local.Count()
	}
	d.news.heard, d.news.stop = s.local.Watch(topic(id))
	var fresh func() *State
	if n != nil {
		fresh = func() *State {
			return &State{Version: Version, ID: id, User: n.User, Agent: n.Agent, Created: s.Now()}
		}
	}
	begun := false
	defer func() {
		if !begun { // also if the engine ends this goroutine
			d.Release()
		}
	}()
	var err error
	if d.head, err = s.head(ctx, id, fresh); err == nil {
		err = n.own(d.head.state)
	}
	if err == nil {
		d.head.driver, d.head.lasting = true, d.slot.lasting
		begins := d.head.rev == 0
		d.head.base = func(tx *Tx) error {
			if err := n.begun(tx.State, begins); err != nil {
				return err
			}
			return d.take(tx)
		}
		err = d.head.adopt(ctx)
	}
	if err != nil {
		return nil, err
	}
	begun = true
	return d, nil
}

// A fence of an engine that one process holds has the engine's incarnation
// above so many bits, and the number of the drive below.
const fenceDrives = 40

// Fence is a number that grows from drive to drive of a session.
func (d *Drive) Fence() int64 {
	began := d.began()
	if d.store.exclusive {
		return began.fence
	}
	return int64(began.epoch)
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
	return !s.leasedUntil(st).IsZero()
}

// Driven reports whether some drive holds the session, and until when at least,
// unless that drive ends it, if that is known.
func (s *Store) Driven(st *State) (held bool, until time.Time) {
	return s.driven(st), s.leasedUntil(st)
}

// take makes the lease this drive's. It rides with the first commit.
func (d *Drive) take(tx *Tx) error {
	s := d.store
	if until := s.leasedUntil(tx.State); !until.IsZero() {
		return &BusyError{Session: tx.ID, Until: until}
	}
	if !tx.Deleted.IsZero() {
		return fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	}
	d.takeOver(tx)
	tx.touch()
	tx.Version = Version
	tx.Epoch++
	d.note(func(c *course) { c.epoch = tx.Epoch })
	d.hold(tx)
	return nil
}

// hold writes into the head whether the drive goes on: while there is work, or bodies run.
func (d *Drive) hold(tx *Tx) {
	now := d.now()
	tx.Held = !now.leaving && (now.keep || Next(tx.State, tx.Now).Working())
	if tx.Held && !d.store.exclusive {
		tx.LeaseEnd, tx.Lease, tx.Beat = tx.Now.Add(d.store.lease), int(d.store.lease.Milliseconds()), tx.Beat+1
	} else {
		tx.LeaseEnd, tx.Lease, tx.Beat = time.Time{}, 0, 0
	}
	tx.Left = tx.Left && tx.Held
}

// Secure makes sure that the lease is durable where it must be before anything
// runs: where leases are stored, and where an earlier drive died, or may have,
// so that deaths are counted. It reports whether that took a commit, which may
// have brought what others have done. A lease that is known to be lost is
// ErrFenced.
func (d *Drive) Secure(ctx context.Context) (committed bool, err error) {
	if err := d.standing(); err != nil {
		return false, err
	}
	if !d.insecure() {
		return false, nil
	}
	return true, d.commit(ctx, touch)
}

// insecure reports whether Secure has something to commit. A stored lease is
// given up by a commit that leaves nothing to do, and is needed again as soon as
// there is something: an answer that came just after its pause.
func (d *Drive) insecure() bool {
	now := d.now()
	switch {
	case d.store.exclusive:
		return !now.taken && now.marked
	case !now.taken:
		return true
	case d.clock.isHeld():
		return false
	}
	return d.Next().Working()
}

// Ride applies a transition and leaves it to the next commit to store it: for what follows from what is stored.
func (d *Drive) Ride(ctx context.Context, t Transition) error {
	return d.alone(ctx, func() error {
		if err := d.standing(); err != nil {
			return err
		}
		d.note(func(c *course) { c.rides = true })
		err := d.head.ride(ctx, func(tx *Tx) error {
			if err := d.check(tx); err != nil {
				return err
			}
			return t(tx)
		})
		if err == nil && d.head.now.full() {
			err = d.update(ctx)
		}
		return err
	})
}

// Drop forgets what rides, but for the lease: it was for something that is not
// going to be. Where ctx ends before that can be done, it is done before
// anything else is.
func (d *Drive) Drop(ctx context.Context) error { return d.do(ctx, task{drop: true}) }

func (d *Drive) drop(ctx context.Context) error {
	rides := d.Rides()
	d.note(func(c *course) { c.rides = false })
	if !rides {
		return nil
	}
	return d.head.drop(ctx)
}

// Rides reports whether something rides, and is not stored yet, but for the
// lease.
func (d *Drive) Rides() bool { return d.now().rides }

// Taken reports whether this drive has committed anything.
func (d *Drive) Taken() bool { return d.now().taken }

// Heir reports whether this drive begins where another one died holding the
// session.
func (d *Drive) Heir() bool { return d.now().heir }

// Outrun reports whether transitions that rode were dropped, since this was
// last asked: what the driver concluded from them is void.
func (d *Drive) Outrun() bool {
	h := d.head
	h.mu.Lock()
	defer h.mu.Unlock()
	outrun := h.outrun
	h.outrun = false
	return outrun
}

// check refuses a drive whose lease another one has taken, or has run out.
func (d *Drive) check(tx *Tx) error {
	if err := d.standing(); err != nil {
		return err
	}
	epoch := d.began().epoch
	switch {
	case !tx.Deleted.IsZero():
		return fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	case tx.Epoch != epoch:
		return fmt.Errorf("%w: session %q, drive %d; drive %d has it", ErrFenced, tx.ID, epoch, tx.Epoch)
	}
	return nil
}

// Refresh takes up what others have committed, and reports whether there was
// anything.
func (d *Drive) Refresh(ctx context.Context) (changed bool, err error) {
	err = d.alone(ctx, func() (err error) {
		changed, err = d.refresh(ctx)
		return err
	})
	return changed, err
}

func (d *Drive) refresh(ctx context.Context) (changed bool, err error) {
	d.news.hear()
	at := d.store.moment()
	if changed, err = d.head.refresh(ctx); err != nil {
		return false, err
	}
	d.news.read(at)
	epoch := d.began().epoch
	switch st := d.head.state; {
	case !st.Deleted.IsZero():
		return changed, d.fate.lose(fmt.Errorf("%w: %q", ErrDeleted, d.id))
	case st.Epoch != epoch:
		return changed, d.fate.lose(fmt.Errorf("%w: session %q, drive %d; drive %d has it", ErrFenced, d.id, epoch, st.Epoch))
	}
	return changed, nil
}

// Look calls f with the head as it will be with what rides, so that it can read what lies beside the head. F must not change it.
func (d *Drive) Look(ctx context.Context, f func(*Tx) error) error {
	return d.alone(ctx, func() error {
		tx := d.head.now
		tx.ctx = ctx
		d.head.place(tx)
		return f(tx)
	})
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
	d.note(func(c *course) { c.keep = on })
}

func touch(tx *Tx) error { tx.touch(); return nil }

// Rest commits what rides and gives a stored lease up, if there is nothing to do: this drive's, or that of one that died and left
// nothing to do, which would be due for ever. Commits that left nothing to do have done so already; then this does nothing.
func (d *Drive) Rest(ctx context.Context) error {
	now := d.now()
	if d.fate.isLost() || !now.rides && !(now.taken && d.holds()) && (now.taken || !now.heir) {
		return nil
	}
	return d.commit(ctx, touch)
}

// holds reports whether, by the head, a drive goes on.
func (d *Drive) holds() (held bool) {
	d.View(func(st *State) { held = st.Held })
	return held
}

// View calls f with the head as this drive knows it. F must not change it, nor
// keep it, nor call the store.
func (d *Drive) View(f func(*State)) { d.head.view(f) }

// State is the head as this drive knows it. It never changes, and the caller
// must not change it.
func (d *Drive) State() *State { return d.head.lend() }
