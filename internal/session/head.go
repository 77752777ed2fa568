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

// head is a session's State as it was last read or written here, with what rides along until the next commit. It is the only
// way in which State is written.
//
// A change is made on a copy, which takes the State's place when it is
// committed, or rides: so a change that comes to nothing leaves no trace, and
// the State may be looked at while another one is in the making. There is one
// change at a time: of a drive, the one that has the drive's slot. Its
// goroutine alone uses what mu doesn't guard.
type head struct {
	store *Store
	key   []byte
	rev   kvstore.Revision // zero: nothing is stored yet
	value []byte           // what is stored at rev
	aside *Blob            // where value lies, if it doesn't lie under key
	stale bool             // something else may be stored by now
	fresh func() *State    // what a session begins with; nil: it must exist

	driver  bool            // its writer drives the session
	lasting context.Context // of a driver: that of its writes, which go on when they are waited for no more

	// base and riding are transitions that were applied to the State, in now,
	// and are not committed yet. They run again on a head that was read anew.
	// Riding ones that no longer apply then, because another writer was faster,
	// are dropped.
	base   Transition
	riding []Transition
	rides  bool // base or riding is in now

	txs        [2]Tx
	now, spare *Tx                    // the one with the State, and the one for the next change: its slices, and its State, are good for it
	buf        []byte                 // the same for the next value
	only       []kvstore.Precondition // of a commit: that no other writer was faster
	change     change
	unsure     unsure

	mu     sync.Mutex // guards the rest
	state  *State     // now's: what is stored at rev, with base and riding
	lent   bool       // it was handed out, and is never changed
	outrun bool       // some of riding were dropped
}

// head reads the head of a session.
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
	e, err := h.store.kv.Get(ctx, h.key)
	if errors.Is(err, kvstore.ErrNotFound) && h.fresh != nil && h.rev == 0 {
		return h.adopt(ctx)
	}
	if err != nil {
		return err
	}
	return h.set(ctx, e)
}

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

// adopt makes the State what is stored at rev, with base and riding, as they
// are by now.
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
			h.riding = h.riding[:i] // what came after it may build on it
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
	*tx = Tx{State: state, kv: h.store.kv, ctx: ctx, puts: tx.puts[:0], deletes: tx.deletes[:0]}
	return tx
}

// place tells a transition when it happens, and who makes it.
func (h *head) place(tx *Tx) {
	tx.Now, tx.driven, tx.beside = h.time(), h.driver || h.store.driven(tx.State), !h.driver
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
		tx.changed, tx.large, tx.payloads, tx.err = now.changed, slices.Clone(now.large), now.payloads, now.err
	}
	return tx
}

// copyTo copies the State. What lies behind its pointers is not changed by any
// transition, and is not copied.
func (h *head) copyTo(to *State) {
	calls, commits := to.Calls[:0], to.Commits[:0]
	*to = *h.state
	to.Calls = append(calls, h.state.Calls...)
	to.Commits = append(commits, h.state.Commits...)
}

// publish makes a transition's State the one that is seen.
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

// ride applies a transition here and now, and leaves it to the next commit to
// store it. It must follow from what is stored: a crash before that commit
// forgets it.
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

// drop forgets what rides, but for base.
func (h *head) drop(ctx context.Context) error {
	h.riding = nil
	return h.adopt(ctx)
}

// schedule puts the session at its place in the wake index, and says whether it has become due by that. While a stored lease
// is held, it is only watched.
func (tx *Tx) schedule(exclusive bool) (woke bool) {
	tx.indexParked()
	step := Next(tx.State, tx.Now)
	held := tx.Held && !exclusive
	tx.watch(held, step.Kind == StepRetry)
	want := step.Until
	switch {
	case held:
		want = time.Time{}
	case step.Working() && isAtOnce(tx.Wake) && !tx.Wake.After(tx.Now):
		return false // it stands there already
	case step.Working():
		want = atOnce(tx.Now)
	}
	if want.Equal(tx.Wake) {
		return false
	}
	if !tx.Wake.IsZero() {
		tx.delete(wakeKey(tx.Agent, tx.Wake, tx.ID))
	}
	if !want.IsZero() {
		tx.put(wakeKey(tx.Agent, want, tx.ID), nil)
	}
	tx.Wake = want
	return !want.IsZero() && !want.After(tx.Now)
}

// atOnce is where what is due at once stands in the wake index: before every time that a clock may show, in the order, to the second,
// in which it became due. A clock that goes back, or another process's that is behind, keeps nobody from it.
func atOnce(now time.Time) time.Time { return time.UnixMilli(now.Unix()).UTC() }

// isAtOnce says that a place in the wake index was made by atOnce; no other is of 1970's first months, unless a clock was set to them.
func isAtOnce(wake time.Time) bool {
	return !wake.IsZero() && wake.Year() == 1970 && wake.YearDay() < 100
}

// A head keeps the ids of its last commits, so that whoever lost an acknowledgement finds out. They need only differ from
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

// last is the newest id; zero: there is none.
func (cs commits) last() (id commitID) {
	if len(cs) >= len(id) {
		id = commitID(cs[len(cs)-len(id):])
	}
	return id
}

// reach says that all commits after id are still among those that are kept.
func (cs commits) reach(id commitID) bool {
	if id == (commitID{}) {
		return len(cs) < keptCommits*len(id)
	}
	return cs.has(id)
}

func (cs commits) has(id commitID) bool {
	for rest := cs; len(rest) >= len(id); rest = rest[len(id):] {
		if commitID(rest[:len(id)]) == id {
			return true
		}
	}
	return false
}

func (cs commits) AppendText(b []byte) ([]byte, error) { return append(b, cs...), nil }

func (cs *commits) UnmarshalText(text []byte) error {
	*cs = append(commits{}, text...)
	return nil
}
