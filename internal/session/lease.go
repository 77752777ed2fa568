package session

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Lease is the right to drive a session, and the one way in which a driver
// writes to it. At most one drive holds a session; a drive that lost it is
// refused with ErrFenced. Its methods may be called from many goroutines.
//
// Where the engine belongs to one process, the lease lives in memory and is
// void with the process. Elsewhere it is stored in the head, ends by time, and
// is renewed by each commit.
//
// Each of its parts has a lock of its own, and none is held over a call of the
// engine. Changes queue for the slot. A method that only looks, or gives the
// lease up, waits neither for the slot nor for the engine, however long the
// engine takes for an answer.
type Lease struct {
	store  *Store
	id     string
	holder string     // in Local
	before Transition // check, made once
	after  func(*Tx)  // hold, made once

	head  *head // changed only by the goroutine that has the slot
	slot  slot
	clock leaseClock
	news  news
	fate  fate

	mu     sync.Mutex // guards course; held over no call of the engine
	course course
}

// course is how a drive began, and how far it has come.
type course struct {
	beginning
	taken    bool // the lease is committed
	passed   bool // before it was, another drive came, and has gone
	keep     bool // the drive goes on, though the head doesn't show it
	rides    bool // a transition rides, beside the one that takes the lease
	givingUp bool // its next commit is its last
}

// beginning is how a drive began, by the head that it found.
type beginning struct {
	epoch    int
	fence    int64     // where one process has the engine
	heir     bool      // by the head a drive held the session, and that one is dead
	left     bool      // it is on the list of sessions that drives have left
	marked   bool      // it must be stored that this drive began, in case it dies
	notUntil time.Time // workers wait until then, see TriedAgain
}

// began returns how the drive began.
func (l *Lease) began() beginning {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.course.beginning
}

// now returns how far the drive has come.
func (l *Lease) now() course {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.course
}

// note changes the course, under its lock.
func (l *Lease) note(f func(*course)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.course)
}

// New is what a session that doesn't exist yet begins with.
type New struct {
	User, Agent string
	Hidden      bool // see State.Hidden
}

// Acquire takes the lease of a session. If another drive has it, the error is a
// *BusyError. With n, a session that doesn't exist is begun, and one of another
// user is ErrWrongUser. Nothing is committed yet: the lease rides with the
// first commit.
func (s *Store) Acquire(ctx context.Context, id string, n *New) (*Lease, error) {
	holder := newCommitID() // any id that no other drive has
	l := &Lease{store: s, id: id, holder: string(holder[:])}
	l.before, l.after = l.check, l.hold
	l.slot = slot{of: l, lasting: context.WithoutCancel(ctx), place: make(chan struct{}, 1)}
	l.clock.store, l.clock.look, l.news.store = s, l.checkLease, s
	if s.exclusive {
		if !s.local.Acquire(leaseName(id), l.holder) {
			return nil, s.busy(ctx, id, n)
		}
		l.course.fence = int64(s.incarnation)<<fenceDrives | s.local.Count()
	}
	l.news.heard, l.news.stop = s.local.Watch(topic(id))
	begun := false
	defer func() {
		if !begun { // also if the engine ends this goroutine
			l.Release()
		}
	}()
	at := s.instant()
	var err error
	if l.head, err = s.head(ctx, id, n.fresh(s, id)); err == nil {
		l.news.read(at)
		err = n.own(l.head.state)
	}
	if err == nil {
		l.head.driver, l.head.lasting = true, l.slot.lasting
		begins := l.head.rev == 0
		l.head.base = func(tx *Tx) error {
			if err := n.begun(tx.State, begins); err != nil {
				return err
			}
			return l.take(tx)
		}
		err = l.head.adopt(ctx)
	}
	if err != nil {
		return nil, err
	}
	begun = true
	return l, nil
}

// A fence of an engine that one process holds has the engine's incarnation
// above so many bits, and the number of the drive below.
const fenceDrives = 40

// Fence is a number that grows from drive to drive of a session.
func (l *Lease) Fence() int64 {
	began := l.began()
	if l.store.exclusive {
		return began.fence
	}
	return int64(began.epoch)
}

// Driver names the drive, among all of its session.
func (l *Lease) Driver() string {
	if l.store.exclusive {
		return l.holder
	}
	return strconv.Itoa(l.began().epoch)
}

// fresh returns what makes the head of a session that doesn't exist; nil: it
// must exist.
func (n *New) fresh(s *Store, id string) func() *State {
	if n == nil {
		return nil
	}
	return func() *State {
		return &State{Version: Version, ID: id, User: n.User, Agent: n.Agent, Hidden: n.Hidden,
			Created: s.Now()}
	}
}

// own refuses a session of another user.
func (n *New) own(st *State) error {
	switch {
	case n == nil:
		return nil
	case n.User != st.User:
		return fmt.Errorf("session %q: %w", st.ID, ErrWrongUser)
	case st.isChild():
		return fmt.Errorf("%w: %q is told what to do by call %s of session %q",
			ErrChild, st.ID, st.Parent.step().Call, st.Parent.step().Session)
	}
	return nil
}

// begun refuses a session that was begun by another user, or with another
// agent, after this drive found none.
func (n *New) begun(st *State, begins bool) error {
	if err := n.own(st); err != nil {
		return err
	}
	switch {
	case begins && n.Agent != st.Agent:
		return &BusyError{Session: st.ID}
	case begins:
		return checkNewID(st.ID)
	}
	return nil
}

// busy refuses a session that another drive in this process holds. If the
// session is another user's, the error says only that.
func (s *Store) busy(ctx context.Context, id string, n *New) error {
	if n != nil {
		if st, err := s.Load(ctx, id); err == nil && n.own(st) != nil {
			return n.own(st)
		}
	}
	return &BusyError{Session: id}
}

func leaseName(session string) string { return "lease " + session }

// driven reports whether a drive holds the session, as far as this process can
// tell. The head's Held is what the last commit stored about it: a drive that
// died leaves it set.
func (s *Store) driven(st *State) bool {
	if s.exclusive {
		return s.local.Holder(leaseName(st.ID)) != ""
	}
	return !s.leasedUntil(st).IsZero()
}

// drivenBy reports whether the drive of that name holds the session, as far as
// this process can tell.
func (s *Store) drivenBy(st *State, driver string) bool {
	if s.exclusive {
		return driver != "" && driver == s.local.Holder(leaseName(st.ID))
	}
	return driver == strconv.Itoa(st.Epoch) && s.driven(st)
}

// Driven reports whether a drive holds the session, and, where leases end by
// time, until when at least, unless that drive gives it up.
func (s *Store) Driven(st *State) (held bool, until time.Time) {
	return s.driven(st), s.leasedUntil(st)
}

// take is the transition that makes the lease this drive's. It rides with the
// first commit.
func (l *Lease) take(tx *Tx) error {
	s := l.store
	if until := s.leasedUntil(tx.State); !until.IsZero() {
		return &BusyError{Session: tx.ID, Until: until}
	}
	if !tx.Deleted.IsZero() {
		return fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	}
	l.takeOver(tx)
	tx.touch()
	tx.Version = max(tx.Version, Version)
	tx.Epoch++
	l.note(func(c *course) {
		c.passed = c.passed || c.epoch != 0 && c.epoch != tx.Epoch
		c.epoch = tx.Epoch
	})
	l.hold(tx)
	return nil
}

// hold is the last transition of each commit. It writes into the head whether
// the drive goes on: while there is work, or bodies run.
func (l *Lease) hold(tx *Tx) {
	now := l.now()
	tx.Held = !now.givingUp && (now.keep || Next(tx.State, tx.Now).Working())
	if tx.Held && !l.store.exclusive {
		tx.LeaseEnd = tx.Now.Add(l.store.lease)
		tx.Lease, tx.Beat = int(l.store.lease.Milliseconds()), tx.Beat+1
	} else {
		tx.LeaseEnd, tx.Lease, tx.Beat = time.Time{}, 0, 0
	}
	tx.EndedInOrder = tx.EndedInOrder && tx.Held
}

// Secure makes the lease durable where it must be before anything runs: where
// leases are stored, and where an earlier drive died, or may have died, so that
// deaths are counted. It reports whether that took a commit, which may have
// brought what others have done. If the lease is known to be lost, the error is
// ErrFenced.
func (l *Lease) Secure(ctx context.Context) (committed bool, err error) {
	if err := l.standing(); err != nil {
		return false, err
	}
	if !l.insecure() {
		return false, nil
	}
	return true, l.commit(ctx, touch)
}

// TakenByClaim reports whether the lease is stored, this drive has not taken it
// yet, and nothing is known of a drive before that would have to be counted. Then
// Secure may be left out, if the claim of a call is the drive's first commit.
func (l *Lease) TakenByClaim() bool {
	now := l.now()
	return !l.store.exclusive && !now.taken && !now.heir && !now.marked
}

// insecure reports whether Secure has something to commit. A commit that leaves
// nothing to do gives a stored lease up. The lease is needed again as soon as
// there is work: after an answer that came just after its pause, say.
func (l *Lease) insecure() bool {
	now := l.now()
	switch {
	case l.store.exclusive:
		return !now.taken && now.marked
	case !now.taken:
		return true
	case l.clock.isHeld():
		return false
	}
	return l.Next().Working()
}

// Ride applies a transition, and leaves it to the next commit to store it. The
// transition must follow from what is stored.
func (l *Lease) Ride(ctx context.Context, t Transition) error {
	return l.alone(ctx, func() error {
		if err := l.standing(); err != nil {
			return err
		}
		l.note(func(c *course) { c.rides = true })
		err := l.head.ride(ctx, func(tx *Tx) error {
			if err := l.check(tx); err != nil {
				return err
			}
			return t(tx)
		})
		if err == nil && l.head.now.full() {
			err = l.update(ctx)
		}
		return err
	})
}

// Drop forgets what rides, except the lease: what it was for is not going to
// happen. If ctx ends first, it is done before the next change is made.
func (l *Lease) Drop(ctx context.Context) error { return l.do(ctx, task{drop: true}) }

func (l *Lease) drop(ctx context.Context) error {
	rides := l.Rides()
	l.note(func(c *course) { c.rides = false })
	if !rides {
		return nil
	}
	return l.head.drop(ctx)
}

// Rides reports whether a transition rides, and is not stored yet, beside the
// one that takes the lease.
func (l *Lease) Rides() bool { return l.now().rides }

// Taken reports whether this drive has committed anything.
func (l *Lease) Taken() bool { return l.now().taken }

// Heir reports whether this drive begins where another one died holding the
// session.
func (l *Lease) Heir() bool { return l.now().heir }

// Outrun reports whether since the last call transitions that rode were dropped,
// or another drive has come and gone before this one had taken the lease. Then
// what the driver concluded from them, or has read, is void.
func (l *Lease) Outrun() (outrun bool) {
	l.note(func(c *course) { outrun, c.passed = c.passed, false })
	h := l.head
	h.mu.Lock()
	defer h.mu.Unlock()
	outrun = outrun || h.outrun
	h.outrun = false
	return outrun
}

// check is the first transition of each commit. It refuses a drive whose lease
// another drive has taken, or whose lease has run out.
func (l *Lease) check(tx *Tx) error {
	if err := l.standing(); err != nil {
		return err
	}
	epoch := l.began().epoch
	switch {
	case !tx.Deleted.IsZero():
		return fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	case tx.Epoch != epoch:
		return fencedBy(tx.State, epoch)
	}
	return nil
}

// fencedBy refuses a drive after which another one has taken the session.
func fencedBy(st *State, epoch int) error {
	return fmt.Errorf("%w: session %q, drive %d; drive %d has it", ErrFenced, st.ID, epoch,
		st.Epoch)
}

// Refresh reads the head again if others have committed, and reports whether
// they have.
func (l *Lease) Refresh(ctx context.Context) (changed bool, err error) {
	err = l.alone(ctx, func() (err error) {
		changed, err = l.refresh(ctx)
		return err
	})
	return changed, err
}

// CatchUp is Refresh where others may have committed: a signal tells so, or the
// head is shared by several processes and was read or written here too long ago.
func (l *Lease) CatchUp(ctx context.Context) (changed bool, err error) {
	err = l.alone(ctx, func() (err error) {
		if l.head.stale || l.fate.isLost() || l.news.isDue() {
			changed, err = l.refresh(ctx)
		}
		return err
	})
	return changed, err
}

func (l *Lease) refresh(ctx context.Context) (changed bool, err error) {
	l.news.hear()
	at := l.store.instant()
	if changed, err = l.head.refresh(ctx); err != nil {
		return false, err
	}
	l.news.read(at)
	epoch := l.began().epoch
	switch st := l.head.state; {
	case !st.Deleted.IsZero():
		return changed, l.fate.lose(fmt.Errorf("%w: %q", ErrDeleted, l.id))
	case st.Epoch != epoch:
		return changed, l.fate.lose(fencedBy(st, epoch))
	}
	return changed, nil
}

// Look calls f with the head as it will be with what rides, so that it can read
// what lies beside the head. F must not change it.
func (l *Lease) Look(ctx context.Context, f func(*Tx) error) error {
	return l.alone(ctx, func() error {
		tx := l.head.now
		tx.ctx = ctx
		l.head.place(tx)
		return f(tx)
	})
}

// Record reads the record of a settled call, also one that rides and is not
// stored yet.
func (l *Lease) Record(ctx context.Context, call string) (r Record, err error) {
	err = l.Look(ctx, func(tx *Tx) error {
		found, err := tx.read(recordKey(l.id, call), &r)
		if err == nil && !found {
			err = fmt.Errorf("%w: %q in session %q", ErrUnknownCall, call, l.id)
		}
		return err
	})
	return r, err
}

// Keep sets whether the drive goes on although the head shows no work: bodies
// run whose calls have settled, or the model is to be called again after a
// while.
func (l *Lease) Keep(on bool) {
	l.note(func(c *course) { c.keep = on })
}

// touch is a transition that changes nothing and is committed all the same.
func touch(tx *Tx) error { tx.touch(); return nil }

// Rest commits what rides and, if there is nothing to do, gives a stored lease
// up: this drive's own, or that of a drive that died, or has left the session,
// and left nothing to do. The latter would be due for ever. If a commit has
// given the lease up already, Rest does nothing.
func (l *Lease) Rest(ctx context.Context) error {
	now := l.now()
	held := now.heir || now.left // by the head, or perhaps, a drive holds the session
	if now.taken {
		held = l.holds()
	}
	if l.fate.isLost() || !now.rides && !held {
		return nil
	}
	return l.commit(ctx, touch)
}

// holds reports whether, by the head, a drive goes on.
func (l *Lease) holds() (held bool) {
	l.View(func(st *State) { held = st.Held })
	return held
}

// View calls f with the head as this drive knows it, under the head's lock. F
// must not change it, nor keep it, nor call the store.
func (l *Lease) View(f func(*State)) { l.head.view(f) }

// State is the head as this drive knows it. It never changes, and the caller
// must not change it.
func (l *Lease) State() *State { return l.head.lend() }
