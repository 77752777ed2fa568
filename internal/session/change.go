package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// change is an update of a head on its way. Its caller may stop waiting for the
// engine; another goroutine then carries the update on. Only the goroutine that
// has the lease's slot touches it.
type change struct {
	commit    commitID
	conflicts int
	uncertain int
	doubt     error     // of a try that may have been applied, or may yet be
	last      commitID  // that the last try built on; zero: none
	made      time.Time // when the last try was made

	// The try whose batch was sent, and what becomes known with it. In doubt, the
	// same batch is sent again: of all that were sent one is applied, at most, and
	// what the transitions told their caller is true of it. Transitions that ran
	// again might find what they have written themselves. A driver's do run again:
	// they tell no caller, and its lease may be over by then.
	tx     *Tx // nil: no batch was sent, or its fate is known
	batch  kvstore.Batch
	write  *engineCall[kvstore.Revision] // nil: none is under way
	behind bool                          // the engine may still read the batch
	value  []byte
	aside  *Blob
	woke   bool
	timed  bool   // a child's time has come into the wake index, or an earlier one
	wakes  bool   // others than the session itself, of any shard
	rang   string // the bell that it rings, of another process
	told   bool   // it has something for the outside
	owing  Owing
	owes   bool // owing is for couriers
}

// unsure is an update that was given up before the engine told what became of
// it. Its write may be applied later; then base, and what rode by then, are
// stored.
type unsure struct {
	commit commitID
	rode   int
}

const (
	// maxConflicts is how often a transition is tried again because another
	// writer was faster.
	maxConflicts = 1000
	// uncertainTries is how often a commit is tried whose acknowledgement gets
	// lost.
	uncertainTries = 4
)

// time returns when the next try is made. If it is unknown what became of the
// last try, the next one takes the last one's time: whichever of the two
// counts, what the transitions tell their caller is true.
func (h *head) time() time.Time {
	if c := &h.change; c.doubt != nil && c.commit != (commitID{}) {
		return c.made
	}
	return h.store.Now()
}

// update applies the transitions to the head, after the expiry of what is
// overdue, and commits what changed. Before and after, if given, run first and
// last. When it returns an error, nothing was committed, unless the error is
// kvstore.ErrUncertain.
//
// A driver's update returns errUnderway when ctx ends first. It then has to be
// carried on.
func (h *head) update(
	ctx context.Context, before Transition, after func(*Tx), ts ...Transition,
) error {
	h.change = change{commit: newCommitID()}
	return h.carryOn(ctx, before, after, ts)
}

// carryOn goes on with an update.
func (h *head) carryOn(
	ctx context.Context, before Transition, after func(*Tx), ts []Transition,
) error {
	c := &h.change
	for {
		err := h.attempt(ctx, before, after, ts)
		switch {
		case err == nil, errors.Is(err, errUnderway):
			return err
		case h.driver && isOf(ctx, err):
			return errUnderway
		case errors.Is(err, errAgain):
		case errors.Is(err, kvstore.ErrConflict):
			if c.conflicts++; c.conflicts == maxConflicts {
				err = fmt.Errorf("session: gave up after %d conflicts: %w", c.conflicts, err)
				return h.abort(err)
			}
		case errors.Is(err, kvstore.ErrUncertain):
			if c.uncertain++; c.uncertain == uncertainTries {
				return h.abort(err)
			}
		case h.driver && errors.Is(err, ErrNoAnswer):
			if c.uncertain++; c.uncertain == uncertainTries {
				return h.abort(err)
			}
		default:
			return h.abort(err)
		}
		if err := ctx.Err(); err != nil {
			if h.driver {
				return errUnderway
			}
			return h.abort(err)
		}
	}
}

// isOf reports whether err is that of ctx, which has ended.
func isOf(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// abort ends an update with its error. If a try was uncertain, the error says
// so.
func (h *head) abort(err error) error {
	c := &h.change
	if c.doubt != nil {
		h.unsure = unsure{c.commit, len(h.riding)}
	}
	c.commit = commitID{}
	h.forgetBatch()
	return doubtful(err, c.doubt)
}

// cutOff ends an update whose goroutine the engine has ended, in whatever it
// was asked. Its write may have been applied.
func (h *head) cutOff() {
	h.stale = true
	c := &h.change
	if c.doubt != nil || c.tx != nil {
		h.unsure = unsure{c.commit, len(h.riding)}
	}
	c.behind = true
	h.forgetBatch()
	h.change = change{}
}

// forgetBatch ends a try: its batch is not sent again.
func (h *head) forgetBatch() {
	c := &h.change
	if c.behind {
		h.spare.puts, h.spare.deletes, h.spare.records = nil, nil, nil
		h.now.records = slices.Clip(h.now.records)
		h.buf, h.only = nil, nil
	}
	c.tx, c.batch, c.behind = nil, kvstore.Batch{}, false
}

// doubtful is the error of an update that ends without having found out about a
// try that was uncertain.
func doubtful(err, doubt error) error {
	if doubt == nil || errors.Is(err, kvstore.ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w; before that: %w", err, doubt)
}

// errAgain is the error of a try that prepared the next one.
var errAgain = errors.New("try again")

// attempt makes one try, or goes on with one. After an error the head is stale.
func (h *head) attempt(
	ctx context.Context, before Transition, after func(*Tx), ts []Transition,
) error {
	c := &h.change
	if c.write != nil {
		return h.await(ctx)
	}
	if h.stale {
		if landed, err := h.catchUp(ctx); landed || err != nil {
			return err
		}
	}
	if c.tx != nil {
		return h.send(ctx)
	}
	c.last = h.state.Commits.last()
	tx := h.open(ctx)
	c.made = tx.Now
	h.stale = true
	err := apply(tx, before, after, ts)
	if tx.missed && (err != nil || !tx.changed) {
		if e, failed := h.read(ctx); failed != nil {
			return failed
		} else if e.Revision != h.rev {
			return errAgain
		}
	}
	switch {
	case err != nil:
		return err
	case len(tx.large) > 0:
		for _, b := range tx.large {
			if b.named != tx.update { // it rode; the next try names it anew
				continue
			}
			if err := h.store.write(ctx, b.session, b.Blob); err != nil {
				return err
			}
		}
		return errAgain
	case !tx.changed:
		h.stale, c.commit = false, commitID{}
		return nil
	}
	return h.commit(ctx, tx)
}

// apply runs an update's transitions.
func apply(tx *Tx, before Transition, after func(*Tx), ts []Transition) error {
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
	return tx.err
}

// catchUp reads the head again, and reports whether the update is in it: then
// only an acknowledgement was lost. A batch that may yet be applied is kept.
func (h *head) catchUp(ctx context.Context) (landed bool, err error) {
	c, rev := &h.change, h.rev
	e, err := h.read(ctx)
	if err != nil || c.tx != nil && e.Revision == rev {
		return false, err
	}
	h.forgetBatch()
	if err := h.take(ctx, e); err != nil {
		return false, err
	}
	if h.state.Commits.has(c.commit) {
		c.commit = commitID{}
		h.stored(h.state.Held)
		h.announce()
		return true, nil
	}
	if h.rev != rev && c.doubt != nil {
		if !h.state.Commits.reach(c.last) {
			// So much has happened since that the ids can't tell any more.
			c.uncertain = uncertainTries - 1
			return false, c.doubt
		}
		c.doubt = nil // another writer was faster, so it will never be applied
	}
	return false, nil
}

// landed forgets base and what rode, if st holds an update whose fate was
// unknown.
func (h *head) landed(st *State) {
	if c := h.change.commit; c != (commitID{}) && st.Commits.has(c) {
		h.base, h.riding = nil, h.riding[:0]
	}
	if u := h.unsure; u.commit != (commitID{}) && st.Commits.has(u.commit) {
		h.base, h.riding = nil, slices.Delete(h.riding, 0, min(u.rode, len(h.riding)))
		h.unsure = unsure{}
	}
}

// commit sends the transition to the engine.
func (h *head) commit(ctx context.Context, tx *Tx) (err error) {
	s, c := h.store, &h.change
	tx.report()
	c.wakes = tx.woke
	was := tx.Wake
	c.woke, c.aside = tx.schedule(s) || tx.woke, nil
	c.timed = IsChild(tx.ID) && tx.Wake.After(tx.Now) &&
		(was.IsZero() || isAtOnce(was) || tx.Wake.Before(was))
	c.told, c.rang = tx.notifies(), tx.rang()
	c.owing, c.owes = tx.owing()
	tx.Commits.add(c.commit)
	if s.exclusive {
		tx.Incarnation = s.incarnation
	}
	if cap(h.buf) == 0 {
		h.buf = make([]byte, 0, len(h.value)+512)
	}
	if c.value, err = strictjson.Append(h.buf[:0], tx.State); err != nil {
		return err
	}
	h.buf = c.value[:0]
	stored := c.value
	if len(stored) > kvstore.MaxValue {
		if c.aside, stored, err = s.putAside(ctx, tx.ID, c.value); err != nil {
			return err
		}
	}
	tx.put(h.key, stored)
	h.only = append(h.only[:0], kvstore.Precondition{Key: h.key, Revision: h.rev})
	h.only = append(h.only, tx.only...)
	c.tx = tx
	c.batch = kvstore.Batch{Preconditions: h.only, Puts: tx.puts, Deletes: tx.deletes}
	h.sends(tx.Held)
	return h.send(ctx)
}

// send sends the batch, which may have been sent before.
func (h *head) send(ctx context.Context) error {
	if h.driver && h.store.kv.bound > 0 {
		h.change.write = h.store.kv.write(h.lasting, h.change.batch)
		return h.await(ctx)
	}
	rev, err := h.store.kv.Apply(ctx, h.change.batch)
	return h.answered(ctx, rev, err)
}

// await waits for the write that is under way.
func (h *head) await(ctx context.Context) error {
	rev, err := h.store.kv.written(ctx, h.change.write)
	if errors.Is(err, errUnderway) {
		return err
	}
	h.change.write = nil
	return h.answered(ctx, rev, err)
}

// answered takes the engine's answer to a write.
func (h *head) answered(ctx context.Context, rev kvstore.Revision, err error) error {
	s, c, tx := h.store, &h.change, h.change.tx
	c.behind = c.behind || behind(err)
	uncertain := errors.Is(err, kvstore.ErrUncertain)
	if uncertain {
		c.doubt = err
	}
	switch {
	case uncertain && !h.driver:
		return err
	case err != nil: // a driver's batch goes with its lease, which the next try looks at
		if c.doubt == nil {
			s.dropAside(ctx, tx.ID, c.aside)
		}
		h.forgetBatch()
		return err
	}
	s.dropAside(ctx, tx.ID, h.aside)
	h.value, h.buf, h.aside = c.value, h.value[:0], c.aside
	h.rev, h.stale, h.base, h.riding, h.rides = rev, false, nil, h.riding[:0], false
	c.commit, h.unsure = commitID{}, unsure{}
	if c.behind {
		h.value = slices.Clone(h.value)
	}
	h.forgetBatch()
	tx.puts, tx.deletes, tx.records = tx.puts[:0], tx.deletes[:0], tx.records[:0]
	tx.large, tx.payloads, tx.changed = nil, 0, false
	tx.only, tx.woke, tx.owed, tx.told, tx.ends = nil, false, false, nil, false
	tx.reminded = nil
	h.stored(tx.Held)
	h.publish(tx)
	h.announce()
	return nil
}

// announce tells this process, and others that share the engine, of a commit.
func (h *head) announce() {
	s, c := h.store, &h.change
	switch {
	case c.woke:
		s.signalWork(h.state.ID, c.wakes)
	case c.timed: // the end of its drive wakes no worker
		s.local.Signal(workTopic)
	}
	if c.told {
		s.signal(notifyTopic)
	}
	if c.rang != "" {
		s.signal(bellTopic(c.rang))
	}
	if c.owes {
		s.couriers.Tell(c.owing)
	}
}
