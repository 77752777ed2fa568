package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/xid"

	"github.com/fermata-ai/fermata/kvstore"
)

// Retention is how long things are kept. Zero values are the defaults.
type Retention struct {
	// Receipts is how long a call's record, receipts, pauses and outside keys
	// outlive its result; default 30 days. After that a redelivered answer is
	// refused as unknown.
	Receipts time.Duration
	// Sessions is how long a session is kept that nothing happens in and
	// nothing waits in; zero: for ever.
	Sessions time.Duration
	// Handles is how long a handle that has stopped is known by its name, and its
	// session is kept; default 30 days. What its model is still to be told of
	// stays.
	Handles time.Duration
	// Tombstones is how long the id of a deleted session can't be used again;
	// default: three times Receipts.
	Tombstones time.Duration
	// Schemas is how long a schema is kept that no open call names, after its
	// last use; default 30 days, and never less than two.
	Schemas time.Duration
	// Orphans is how long a payload may lie about that nothing refers to (yet);
	// default an hour.
	Orphans time.Duration
}

func (r Retention) defaults() Retention {
	if r.Receipts <= 0 {
		r.Receipts = 30 * 24 * time.Hour
	}
	if r.Handles <= 0 {
		r.Handles = 30 * 24 * time.Hour
	}
	if r.Tombstones <= 0 {
		r.Tombstones = 3 * r.Receipts
	}
	r.Tombstones = max(r.Tombstones, r.Receipts)
	if r.Schemas <= 0 {
		r.Schemas = 30 * 24 * time.Hour
	}
	r.Schemas = max(r.Schemas, 2*useEvery)
	if r.Orphans <= 0 {
		r.Orphans = time.Hour
	}
	return r
}

// Swept counts what a sweep removed.
type Swept struct {
	Sessions, Tombstones, Calls, Handles, Payloads, Entries, Schemas int
}

// Sweep removes what has outlived its retention, and what nothing refers to. It
// goes through the store in small steps, with nothing held in between, and may
// be cut off at any of them. A session that can't be read is left alone; its
// error comes with those of the others, at the end.
func (s *Store) Sweep(ctx context.Context, r *Retention) (Swept, error) {
	sw := &sweep{store: s, now: s.Now(), named: map[string]bool{}}
	if r != nil {
		sw.keep = *r
	}
	sw.keep = sw.keep.defaults()
	var errs []error
	for e, err := range s.scan(ctx, kvstore.Key("h")) {
		if err != nil {
			sw.unread = true
		} else {
			err = sw.session(ctx, e)
		}
		if ctx.Err() != nil {
			return sw.swept, ctx.Err()
		}
		if err != nil && len(errs) < maxSweepErrors {
			errs = append(errs, err)
		}
	}
	for _, kind := range []string{"o", "k"} {
		if err := sw.index(ctx, kind); err != nil {
			errs = append(errs, err)
		}
	}
	for _, kind := range []string{inboxKind, machineKind, treeKind} {
		if err := sw.unlisted(ctx, kind); err != nil {
			errs = append(errs, err)
		}
	}
	for _, upkeep := range []func(context.Context) error{sw.homeless, sw.recoveries, sw.unkept,
		sw.notified} {
		if err := upkeep(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if !sw.unread { // what a session that can't be read names is unknown
		if err := sw.schemas(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return sw.swept, errors.Join(errs...)
}

// maxSweepErrors is how many errors of sessions a sweep returns.
const maxSweepErrors = 10

// sweep is one run of Sweep. One goroutine has it.
type sweep struct {
	keep  Retention
	swept Swept
	store *Store
	now   time.Time

	named  map[string]bool // hashes of the schemas that open calls name
	unread bool            // a head could not be read
}

// session sweeps what belongs to one session.
func (sw *sweep) session(ctx context.Context, e kvstore.Entry) error {
	st, err := sw.store.decodeHead(ctx, e)
	if err != nil {
		sw.unread = true
		return err
	}
	for i := range st.Calls {
		c := &st.Calls[i]
		sw.named[c.Output] = true
		for _, hash := range c.Mailbox.schemas() {
			sw.named[hash] = true
		}
		if c.Pause != nil {
			sw.named[c.Pause.Schema] = true
		}
	}
	if st.Parent != nil {
		sw.named[st.Parent.Schema] = true
	}
	if !st.Deleted.IsZero() {
		return sw.tombstone(ctx, e, st)
	}
	if gone, err := sw.delete(ctx, st); gone || err != nil {
		return err
	}
	if err := sw.calls(ctx, st); err != nil {
		return err
	}
	if err := sw.handles(ctx, st); err != nil {
		return err
	}
	return sw.payloads(ctx, st)
}

// delete deletes a session that has outlived its retention, if it still has when
// that is committed. Gone: it is deleted, or used again.
func (sw *sweep) delete(ctx context.Context, st *State) (gone bool, err error) {
	if !sw.outlived(st, sw.now) {
		return false, nil
	}
	if named, err := sw.isNamed(ctx, st); named || err != nil {
		return false, err
	}
	deleted := false
	err = sw.store.deleteIf(ctx, st.ID, "", func(tx *Tx) bool {
		deleted = !tx.driven && sw.outlived(tx.State, tx.Now)
		return deleted
	})
	if err != nil || !deleted {
		return true, err
	}
	sw.swept.Sessions++
	_, err = sw.store.Deliver(ctx, st.ID) // no child outlives it
	return true, err
}

// outlived reports whether a session has outlived its retention. That of a
// handle is another one.
func (sw *sweep) outlived(st *State, now time.Time) bool {
	over := st.over(now)
	switch {
	case over.IsZero() || st.HasErrands():
		return false
	case st.isHandle():
		return st.hasTold() && now.Sub(over) > sw.keep.Handles
	}
	return sw.keep.Sessions > 0 && now.Sub(over) > sw.keep.Sessions
}

// over returns since when a session neither works nor waits, nor one of its
// handles; zero: it does.
func (s *State) over(now time.Time) time.Time {
	if s.Handles > 0 {
		return time.Time{}
	}
	switch Next(s, now).Kind {
	case StepIdle:
		return s.Ended
	case StepHalted:
		return s.Halt.At
	}
	return time.Time{}
}

// tombstone finishes what an interrupted Delete left, and forgets a session
// that was deleted long ago.
func (sw *sweep) tombstone(ctx context.Context, e kvstore.Entry, st *State) error {
	if err := sw.store.deleteParts(ctx, st.ID); err != nil {
		return err
	}
	if st.HasErrands() { // it goes once that is carried out
		_, err := sw.store.Deliver(ctx, st.ID)
		return err
	}
	if sw.now.Sub(st.Deleted) <= sw.keep.Tombstones {
		return nil
	}
	gone := kvstore.Batch{
		Preconditions: []kvstore.Precondition{{Key: e.Key, Revision: e.Revision}},
		Deletes:       [][]byte{e.Key},
	}
	if st.Parent != nil {
		gone.Deletes = append(gone.Deletes, childKey(st.Parent.step().Session, st.ID))
	}
	_, err := sw.store.kv.Apply(ctx, gone)
	if err == nil {
		sw.swept.Tombstones++
	}
	return err
}

// calls removes the records and receipts of calls that settled long ago, but
// for those that the next drive is to show.
func (sw *sweep) calls(ctx context.Context, st *State) error {
	for e, err := range sw.store.scan(ctx, kvstore.Key("c", st.ID)) {
		if err != nil {
			return err
		}
		var r Record
		if err := decode(e.Key, e.Value, &r); err != nil {
			return err
		}
		needed := st.Call(r.Call) != nil || st.Unseen.names(r.Call)
		if needed || sw.now.Sub(r.At) <= sw.keep.Receipts {
			continue
		}
		// The record goes last, so that an interrupted sweep comes back for the
		// rest.
		for _, kind := range []string{"r", "e", "d", "V"} {
			if err := sw.store.deleteAll(ctx, kvstore.Key(kind, st.ID, r.Call)); err != nil {
				return err
			}
		}
		last := kvstore.Batch{Deletes: [][]byte{e.Key, progressKey(st.ID, r.Call),
			contentKey(st.ID, r.Call)}}
		if err := sw.store.repeat(ctx, last); err != nil {
			return err
		}
		sw.swept.Calls++
	}
	return nil
}

// payloads removes those of a session that neither its head, nor a record, nor
// a message refers to.
func (sw *sweep) payloads(ctx context.Context, st *State) error {
	var used map[string]bool
	return sw.oldPayloads(ctx, st.ID, func(id string) (_ bool, err error) {
		if used == nil {
			// Payloads never change, and one that is old and unused now is
			// never used again.
			used, err = sw.store.usedPayloads(ctx, st.ID)
		}
		return used[id], err
	})
}

// oldPayloads removes the old payloads of a session, but those that are used; nil:
// none is.
func (sw *sweep) oldPayloads(
	ctx context.Context, session string, used func(id string) (bool, error),
) error {
	for e, err := range sw.store.scan(ctx, kvstore.Key("p", session)) {
		if err != nil {
			return err
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 4 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		if sw.now.Sub(madeAt(parts[2])) <= sw.keep.Orphans {
			continue // perhaps the commit that refers to it is on its way
		}
		if used != nil {
			if is, err := used(parts[2]); err != nil {
				return err
			} else if is {
				continue
			}
		}
		if err := sw.store.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Payloads++
	}
	return nil
}

// madeAt returns when an id was made. An id that doesn't tell counts as made
// long ago.
func madeAt(id string) time.Time {
	if len(id) >= 20 {
		if x, err := xid.FromString(id[len(id)-20:]); err == nil {
			return x.Time()
		}
	}
	return time.Time{}
}

// usedPayloads returns the ids of the payloads that a session refers to.
func (s *Store) usedPayloads(ctx context.Context, id string) (map[string]bool, error) {
	// The head is read first: a payload may move from it to a record or a
	// message meanwhile, and not the other way.
	h, err := s.head(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	used := h.payloads()
	note := func(b *Blob) {
		if b != nil {
			used[b.Ref] = true
		}
	}
	for q, err := range s.Queue(ctx, id) { // before the history, for which it leaves the queue
		if err != nil {
			return nil, err
		}
		note(q.Message)
	}
	for e, err := range s.scan(ctx, kvstore.Key("m", id)) {
		if err != nil {
			return nil, err
		}
		if ref, err := messageRef(e); err != nil {
			return nil, err
		} else if ref != nil {
			note(ref)
		}
	}
	for e, err := range s.scan(ctx, kvstore.Key("c", id)) {
		if err != nil {
			return nil, err
		}
		var r Record
		if err := decode(e.Key, e.Value, &r); err != nil {
			return nil, err
		}
		r.blobs(note)
	}
	for e, err := range s.scan(ctx, kvstore.Key("e", id)) {
		if err != nil {
			return nil, err
		}
		var m mailRecord
		if err := decode(e.Key, e.Value, &m); err != nil {
			return nil, err
		}
		note(m.Payload)
	}
	return used, nil
}

// index removes the entries of a pause index whose calls are neither open nor
// on record.
func (sw *sweep) index(ctx context.Context, kind string) error {
	last := new(State) // that was read: the entries of one turn stand side by side
	for e, err := range sw.store.scan(ctx, kvstore.Key(kind)) {
		if err != nil {
			return err
		}
		id, call, err := entryCall(kind, e)
		if err != nil {
			return err
		}
		if last.ID == id && last.Call(call) != nil {
			continue
		}
		st, err := sw.store.Load(ctx, id)
		if err != nil && !errors.Is(err, ErrUnknownSession) {
			continue // the sweep of that session returns the error
		}
		if err == nil {
			if last = st; st.Call(call) != nil {
				continue
			}
		}
		var r Record
		if found, err := sw.store.read(ctx, recordKey(id, call), &r); found || err != nil {
			continue
		}
		// A call that was asked for just now may have paused between the two
		// reads; its entry is younger than this sweep.
		if sw.now.Sub(madeAt(call)) <= sw.keep.Orphans {
			continue
		}
		if err := sw.store.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Entries++
	}
	return nil
}

// entryCall returns the call that an entry of a pause index is about.
func entryCall(kind string, e kvstore.Entry) (session, call string, err error) {
	parts, err := kvstore.Parts(e.Key)
	switch {
	case err != nil:
		return "", "", err
	case kind == "k" && len(parts) == 5:
		return parts[3], parts[4], nil
	case kind == "o" && len(parts) == 2:
		var entry pauseEntry
		err := decode(e.Key, e.Value, &entry)
		return entry.Session, CallID(parts[1]), err
	}
	return "", "", fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
}
