package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// head is a session's State as it was last read or written here, with what
// rides along until the next commit. It is the only way in which State is
// written.
//
// A change is made on a copy, which takes the State's place when it is
// committed, or rides. So a change that comes to nothing leaves no trace, and
// readers may look at the State while the next one is in the making.
//
// There is one change at a time. The head of a lease is changed by the
// goroutine that has the lease's slot, any other by the one that read it. That
// goroutine alone touches what mu doesn't guard. Any goroutine may call view
// and lend.
type head struct {
	store *Store
	key   []byte
	rev   kvstore.Revision // zero: nothing is stored yet
	value []byte           // what is stored at rev
	aside *Blob            // where value lies, if it doesn't lie under key
	stale bool             // another state may be stored by now
	fresh func() *State    // what a session begins with; nil: it must exist

	driver  bool            // its writer drives the session
	lasting context.Context // a driver's writes go on under it without their caller

	// base and riding are transitions that were applied to the State, in now,
	// and are not committed yet. They run again on a head that was read anew.
	// Riding ones that no longer apply then, because another writer was faster,
	// are dropped.
	base   Transition
	riding []Transition
	rides  bool // base or riding is in now

	// Two transitions take turns: now has the State, and spare is for the next
	// change, which reuses spare's slices and State. Buf is reused likewise,
	// for the next value.
	txs        [2]Tx
	now, spare *Tx
	buf        []byte
	only       []kvstore.Precondition // of a commit: that no other writer was faster
	change     change
	unsure     unsure

	mu     sync.Mutex // guards the rest; held over no call of the engine
	state  *State     // now's: what is stored at rev, with base and riding
	lent   bool       // state was handed out, and so must never change
	held   bool       // by what was stored here, or may have been, a drive holds the session
	outrun bool       // some of riding were dropped
}

// head reads the head of a session. Fresh, if given, makes one that isn't
// there.
func (s *Store) head(ctx context.Context, id string, fresh func() *State) (*head, error) {
	h := &head{store: s, key: headKey(id), fresh: fresh}
	h.now, h.spare = &h.txs[0], &h.txs[1]
	if err := h.load(ctx); err != nil {
		return nil, notFound(id, err)
	}
	return h, nil
}

// view calls f with the State as it is known.
func (h *head) view(f func(*State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.state)
}

// lend returns the State as it is known, which from then on doesn't change.
func (h *head) lend() *State {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lent = true
	return h.state
}

// load reads the head.
func (h *head) load(ctx context.Context) error {
	e, err := h.read(ctx)
	if err != nil {
		return err
	}
	return h.take(ctx, e)
}

// read returns the head's entry; the zero one: it isn't there, and may be made.
func (h *head) read(ctx context.Context) (kvstore.Entry, error) {
	e, err := h.store.kv.Get(ctx, h.key)
	if errors.Is(err, kvstore.ErrNotFound) && h.fresh != nil && h.rev == 0 {
		return kvstore.Entry{}, nil
	}
	return e, err
}

// take makes the State the one that was read.
func (h *head) take(ctx context.Context, e kvstore.Entry) error {
	if e.Revision == 0 {
		return h.adopt(ctx)
	}
	return h.set(ctx, e)
}

// set makes the State the one that an entry holds.
func (h *head) set(ctx context.Context, e kvstore.Entry) error {
	e, aside, err := h.store.whole(ctx, e)
	if err != nil {
		return err
	}
	state, err := decodeState(h.key, e.Value)
	if err != nil {
		return err
	}
	h.rev, h.value, h.aside = e.Revision, e.Value, aside
	return h.put(ctx, state)
}

// adopt makes the State anew from what is stored at rev, with base and riding.
func (h *head) adopt(ctx context.Context) error {
	if h.rev == 0 {
		return h.put(ctx, h.fresh())
	}
	state, err := decodeState(h.key, h.value)
	if err != nil {
		return err
	}
	return h.put(ctx, state)
}

// put makes the State one that was read, with base and riding.
func (h *head) put(ctx context.Context, state *State) error {
	h.stale = true
	h.landed(state)
	tx := h.prepare(ctx, state)
	if h.base == nil && len(h.riding) == 0 {
		if !h.rides {
			tx.records = h.now.records
		}
		h.rides, h.stale = false, false
		h.publish(tx)
		return nil
	}
	h.place(tx)
	if h.base != nil {
		if err := h.base(tx); err != nil {
			return err
		}
	}
	for i, t := range h.riding {
		switch err := t(tx); {
		case err == nil:
		case Moved(err):
			h.riding = h.riding[:i] // those after it may build on it
			h.mu.Lock()
			h.outrun = true
			h.mu.Unlock()
			return h.load(ctx)
		default:
			return err
		}
	}
	h.rides, h.stale = true, false
	h.publish(tx)
	return nil
}

// prepare makes the spare transition one that begins with a State, and nothing
// beside it.
func (h *head) prepare(ctx context.Context, state *State) *Tx {
	tx := h.spare
	*tx = Tx{State: state, outside: h.store.notify, kv: h.store.kv, ctx: ctx,
		puts: tx.puts[:0], deletes: tx.deletes[:0]}
	return tx
}

// place tells a transition when it happens, and who makes it.
func (h *head) place(tx *Tx) {
	tx.Now, tx.driven, tx.beside = h.time(), h.driver || h.store.driven(tx.State), !h.driver
	tx.update = h.change.commit
}

// open returns the transition in the making: on a copy of the State, with all
// that rides already in it.
func (h *head) open(ctx context.Context) *Tx {
	state, now := h.spare.State, h.now
	if state == nil {
		state = new(State)
	}
	h.copyTo(state)
	tx := h.prepare(ctx, state)
	h.place(tx)
	tx.records = now.records
	if h.rides {
		tx.puts = append(tx.puts, now.puts...)
		tx.deletes = append(tx.deletes, now.deletes...)
		tx.changed, tx.payloads, tx.err = now.changed, now.payloads, now.err
		tx.large, tx.only = slices.Clone(now.large), slices.Clone(now.only)
		tx.woke, tx.owed = now.woke, now.owed
		tx.told, tx.ends = slices.Clone(now.told), now.ends
		tx.reminded = slices.Clone(now.reminded)
	}
	return tx
}

// copyTo copies the State. What lies behind its pointers is not changed by any
// transition, and is not copied.
func (h *head) copyTo(to *State) {
	calls, commits, outbox := to.Calls[:0], to.Commits[:0], to.Outbox[:0]
	*to = *h.state
	to.Calls = append(calls, h.state.Calls...)
	to.Commits = append(commits, h.state.Commits...)
	to.Outbox = append(outbox, h.state.Outbox...)
}

// mayBeHeld reports whether, by what was stored here, or may have been, a drive
// holds the session.
func (h *head) mayBeHeld() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// sends notes that a commit is about to be sent. From then on it may be stored,
// whatever the engine answers.
func (h *head) sends(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = h.held || held
}

// stored notes that a commit is stored, and keeps out all that was sent before.
func (h *head) stored(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
}

// publish makes a transition's State the one that readers see.
func (h *head) publish(tx *Tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now, h.spare = tx, h.now
	if h.lent {
		h.spare.State = nil
	}
	h.state, h.lent = tx.State, false
}

// refresh reads the head again if it has changed, and reports whether it had.
func (h *head) refresh(ctx context.Context) (bool, error) {
	e, err := h.store.kv.Get(ctx, h.key)
	switch {
	case errors.Is(err, kvstore.ErrNotFound) && h.rev == 0:
		return false, nil
	case err != nil:
		return false, err
	case e.Revision == h.rev && !h.stale:
		return false, nil
	}
	return true, h.set(ctx, e)
}

// ride applies a transition now; the next commit stores it. The transition must
// follow from what is stored, since a crash before that commit forgets it.
func (h *head) ride(ctx context.Context, t Transition) error {
	if h.stale {
		if err := h.load(ctx); err != nil {
			return err
		}
	}
	tx := h.open(ctx)
	if err := t(tx); err != nil {
		h.stale = true
		return err
	}
	h.riding, h.rides = append(h.riding, t), true
	h.publish(tx)
	return nil
}

// drop forgets what rides, except base.
func (h *head) drop(ctx context.Context) error {
	h.riding = nil
	return h.adopt(ctx)
}

// schedule puts the session at its place in the wake index, and reports whether
// that makes it due. A session that a drive holds doesn't stand there: it is
// watched, or stands in the recovery index.
func (tx *Tx) schedule(s *Store) (woke bool) {
	tx.indexParked()
	tx.ring(s)
	step := Next(tx.State, tx.Now)
	watched, kept := tx.Held && !s.exclusive, tx.indexHeld(s)
	held := watched || kept
	tx.watch(watched, step.Kind == StepRetry && !kept)
	want := step.Until
	due, owes := tx.OwesAt()
	working := step.Working() || owes && !due.After(tx.Now)
	switch {
	case held:
		want = time.Time{}
	case working && isAtOnce(tx.Wake) && !tx.Wake.After(tx.Now):
		return false // it stands there already
	case working:
		want = atOnce(tx.Now)
	case owes && (want.IsZero() || due.Before(want)):
		want = due
	}
	if want.Equal(tx.Wake) {
		return false
	}
	if !tx.Wake.IsZero() {
		tx.delete(wakeKey(tx.Agent, tx.Wake, tx.ID))
	}
	if !want.IsZero() {
		tx.put(wakeKey(tx.Agent, want, tx.ID), []byte(tx.User))
	}
	tx.Wake = want
	return !want.IsZero() && !want.After(tx.Now)
}

// atOnce returns the place in the wake index of a session that is due at once:
// before every time that a clock may show, in the order, to the second, in
// which such sessions became due. A worker whose clock went back, or is behind,
// finds it all the same.
func atOnce(now time.Time) time.Time { return time.UnixMilli(now.Unix()).UTC() }

// leastTime is the first time that has a place of its own in the wake index.
// What lies before, in the first months of 1970, was made by atOnce, unless a
// clock was set to them.
var leastTime = time.Date(1970, time.January, 100, 0, 0, 0, 0, time.UTC)

// isAtOnce reports whether a place in the wake index was made by atOnce.
func isAtOnce(wake time.Time) bool { return !wake.IsZero() && wake.Before(leastTime) }

// keptCommits is how many ids of its last commits a head keeps. A writer that
// lost an acknowledgement finds its id there. So ids need only differ from
// their neighbours.
const keptCommits = 16

type commitID [8]byte

func newCommitID() (id commitID) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	n := rand.Uint64()
	for i := range id {
		id[i] = digits[n%64]
		n /= 64
	}
	return id
}

// commits are the ids of a head's last commits, newest last.
type commits []byte

// add appends an id and drops the oldest.
func (cs *commits) add(id commitID) {
	if extra := len(*cs) + len(id) - keptCommits*len(id); extra > 0 {
		*cs = append((*cs)[:0], (*cs)[extra:]...)
	}
	*cs = append(*cs, id[:]...)
}

// last returns the newest id; zero: there is none.
func (cs commits) last() (id commitID) {
	if len(cs) >= len(id) {
		id = commitID(cs[len(cs)-len(id):])
	}
	return id
}

// reach reports whether all commits after id are still among those that are
// kept.
func (cs commits) reach(id commitID) bool {
	if id == (commitID{}) {
		return len(cs) < keptCommits*len(id)
	}
	return cs.has(id)
}

// has reports whether the id is among those that are kept.
func (cs commits) has(id commitID) bool {
	for rest := cs; len(rest) >= len(id); rest = rest[len(id):] {
		if commitID(rest[:len(id)]) == id {
			return true
		}
	}
	return false
}

// AppendText and UnmarshalText make commits one JSON string.
func (cs commits) AppendText(b []byte) ([]byte, error) { return append(b, cs...), nil }

func (cs *commits) UnmarshalText(text []byte) error {
	*cs = append(commits{}, text...)
	return nil
}

// since returns when a session became due that stands at a place in the wake
// index.
func since(wake time.Time) time.Time {
	if isAtOnce(wake) {
		return time.Unix(wake.UnixMilli(), 0).UTC()
	}
	return wake
}
