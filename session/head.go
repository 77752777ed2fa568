package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// head is a session's State as it was last read or written here, with what rides along until the next commit. It is the only
// way in which State is written.
type head struct {
	store *Store
	key   []byte
	state *State
	rev   kvstore.Revision // zero: nothing is stored yet
	value []byte           // what is stored at rev
	aside *Blob            // where value lies, if it doesn't lie under key
	stale bool             // state is not what is stored at rev, with tx on top
	fresh func() *State    // what a session begins with; nil: it must exist

	driver bool // whoever writes it drives the session

	// base and riding are transitions that were applied to state, in tx, and are not committed yet. They run again on a head that
	// was read anew. Riding ones that no longer apply then, because somebody else was faster, are dropped.
	base   Transition
	riding []Transition
	outrun bool      // some were dropped
	tried  time.Time // when the last try was made
	again  time.Time // the same, where nothing tells what became of it: the next one is to be its equal
	tx     *Tx
	spare  *Tx                     // one that was committed, for the next: its slices are good for it
	buf    []byte                  // the same for the next value
	only   [1]kvstore.Precondition // of a commit: that nobody else was faster
}

// head reads the head of a session.
func (s *Store) head(ctx context.Context, id string, fresh func() *State) (*head, error) {
	h := &head{store: s, key: headKey(id), fresh: fresh}
	if err := h.load(ctx); err != nil {
		return nil, notFound(id, err)
	}
	return h, nil
}

func (h *head) load(ctx context.Context) error {
	e, err := h.store.kv.Get(ctx, h.key)
	if errors.Is(err, kvstore.ErrNotFound) && h.fresh != nil && h.rev == 0 {
		h.state, h.tx, h.stale = h.fresh(), nil, false
		return nil
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
	h.state, h.rev, h.value, h.aside, h.tx, h.stale = state, e.Revision, e.Value, aside, nil, false
	return nil
}

// rollback makes of state what it was before a change that was not committed: a driver must not see, nor show, what is not so.
// The next change begins with what is stored by then.
func (h *head) rollback(ctx context.Context) {
	h.restore()
	if _, err := h.open(ctx); err != nil {
		h.restore() // without what rides
	}
	h.stale = true
}

func (h *head) restore() {
	h.tx = nil
	if h.rev == 0 {
		h.state = h.fresh()
	} else if state, err := decodeState(h.key, h.value); err == nil { // as it could be read before
		h.state = state
	}
}

// refresh reads the head again if it has changed, and says whether it had.
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
	if err := h.set(ctx, e); err != nil {
		return false, err
	}
	_, err = h.open(ctx)
	return true, err
}

// now is the time of the transition in the making.
func (h *head) now() time.Time {
	if !h.again.IsZero() {
		return h.again
	}
	return h.store.Now()
}

// open returns the transition in the making, with all that rides already in it.
func (h *head) open(ctx context.Context) (*Tx, error) {
	s := h.store
	if h.tx != nil {
		h.tx.Now, h.tx.ctx = h.now(), ctx
		return h.tx, nil
	}
	tx := h.spare
	if tx == nil {
		tx = new(Tx)
	}
	h.spare = nil
	*tx = Tx{State: h.state, Now: h.now(), driven: h.driver || s.driven(h.state), beside: !h.driver, kv: s.kv, ctx: ctx,
		puts: tx.puts[:0], deletes: tx.deletes[:0], records: tx.records[:0]}
	if h.base != nil {
		if err := h.base(tx); err != nil {
			h.stale = true
			return nil, err
		}
	}
	for i, t := range h.riding {
		if err := t(tx); err != nil {
			h.stale = true
			if !outrun(err) {
				return nil, err
			}
			h.riding, h.outrun = h.riding[:i], true // what came after it may build on it
			if err := h.load(ctx); err != nil {
				return nil, err
			}
			return h.open(ctx)
		}
	}
	h.tx = tx
	return tx, nil
}

// outrun says that a transition was refused because somebody else's came first.
func outrun(err error) bool {
	return errors.Is(err, ErrSettled) || errors.Is(err, ErrUnknownCall) || errors.Is(err, ErrStale) || errors.Is(err, errMove)
}

// ride applies a transition here and now, and leaves it to the next commit to store it. It must follow from what is stored: a
// crash before that commit forgets it.
func (h *head) ride(ctx context.Context, t Transition) error {
	if h.stale {
		if err := h.load(ctx); err != nil {
			return err
		}
	}
	tx, err := h.open(ctx)
	if err != nil {
		return err
	}
	if err := t(tx); err != nil {
		h.stale = true
		return err
	}
	h.riding = append(h.riding, t)
	return nil
}

// maxConflicts is how often a transition is tried again because somebody else was faster.
const maxConflicts = 1000

// update applies the transitions to the head, after the expiry of what is overdue, and commits what changed. Before and after,
// if given, run first and last. When it returns an error, nothing was committed, unless the error is kvstore.ErrUncertain.
func (h *head) update(ctx context.Context, before Transition, after func(*Tx), ts ...Transition) error {
	commit := newCommitID()
	var doubt error   // of a try that may have been applied, or may yet be
	var last commitID // that the last try built on; zero: none
	defer func() { h.again = time.Time{} }()
	for conflicts, uncertain := 0, 0; ; {
		if h.stale {
			rev := h.rev
			if err := h.load(ctx); err != nil {
				return doubtful(err, doubt)
			}
			if h.state.Commits.has(commit) {
				h.base, h.riding = nil, nil // only the acknowledgement was lost
				return nil
			}
			if h.rev != rev && doubt != nil {
				if !h.state.Commits.reach(last) {
					return doubt // so much has happened since that nothing tells
				}
				doubt, h.again = nil, time.Time{} // somebody else was faster, and so it never will be
			}
		}
		last = h.state.Commits.last()
		err := h.try(ctx, commit, before, after, ts)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errAgain):
		case errors.Is(err, kvstore.ErrConflict):
			if conflicts++; conflicts == maxConflicts {
				return doubtful(fmt.Errorf("session: gave up after %d conflicts: %w", conflicts, err), doubt)
			}
		case errors.Is(err, kvstore.ErrUncertain):
			// Should it be applied after all, and the next one not, then what the transitions have told their caller must still be true.
			doubt, h.again = err, h.tried
			if uncertain++; uncertain == uncertainTries {
				return err
			}
		default:
			return doubtful(err, doubt)
		}
		if err := ctx.Err(); err != nil {
			return doubtful(err, doubt)
		}
	}
}

// doubtful is the error of an update that ends without having found out about a try that was uncertain.
func doubtful(err, doubt error) error {
	if doubt == nil || errors.Is(err, kvstore.ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w; before that: %w", err, doubt)
}

// errAgain says that a try prepared the next one.
var errAgain = errors.New("try again")

// try makes one attempt. Whatever it returns but nil, the head is stale.
func (h *head) try(ctx context.Context, commit commitID, before Transition, after func(*Tx), ts []Transition) error {
	tx, err := h.open(ctx)
	h.stale = true
	if err != nil {
		return err
	}
	h.tried = tx.Now
	if before != nil {
		if err := before(tx); err != nil {
			return err
		}
	}
	if err := tx.Expire(); err != nil {
		return err
	}
	for _, t := range ts {
		if err := t(tx); err != nil {
			return err
		}
	}
	if after != nil {
		after(tx)
	}
	switch {
	case tx.err != nil:
		return tx.err
	case len(tx.large) > 0:
		for _, b := range tx.large {
			if err := h.store.write(ctx, tx.ID, b); err != nil {
				return err
			}
		}
		return errAgain
	case !tx.changed:
		h.stale = false
		return nil
	}
	return h.commit(ctx, tx, commit)
}

func (h *head) commit(ctx context.Context, tx *Tx, id commitID) error {
	s := h.store
	woke := tx.schedule(s.exclusive)
	tx.Commits.add(id)
	if s.exclusive {
		tx.Incarnation = s.incarnation
	}
	if cap(h.buf) == 0 {
		h.buf = make([]byte, 0, len(h.value)+512)
	}
	value, err := tx.State.appendJSON(h.buf[:0])
	if err != nil {
		return err
	}
	h.buf = value[:0]
	stored, aside := value, (*Blob)(nil)
	if len(value) > kvstore.MaxValue {
		if aside, stored, err = s.putAside(ctx, tx.ID, value); err != nil {
			return err
		}
	}
	tx.put(h.key, stored)
	h.only[0] = kvstore.Precondition{Key: h.key, Revision: h.rev}
	rev, err := s.kv.Apply(ctx, kvstore.Batch{Preconditions: h.only[:], Puts: tx.puts, Deletes: tx.deletes})
	if err != nil {
		if !errors.Is(err, kvstore.ErrUncertain) {
			s.dropAside(ctx, tx.ID, aside)
		}
		return err
	}
	s.dropAside(ctx, tx.ID, h.aside)
	h.value, h.buf, h.aside = value, h.value[:0], aside
	h.rev, h.stale, h.base, h.riding, h.tx, h.spare = rev, false, nil, h.riding[:0], nil, tx
	if woke {
		s.local.Signal(workTopic)
	}
	return nil
}

// schedule puts the session at its place in the wake index, and says whether it has become due by that. While a stored lease
// is held, its place is the lease's end.
func (tx *Tx) schedule(exclusive bool) (woke bool) {
	step := Next(tx.State, tx.Now)
	want := step.Until
	switch {
	case tx.Held && !exclusive:
		want = tx.LeaseEnd
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

func (cs commits) MarshalText() ([]byte, error) { return cs, nil }

func (cs *commits) UnmarshalText(text []byte) error {
	*cs = append(commits{}, text...)
	return nil
}
