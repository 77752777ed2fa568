package wide

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// edit is a change of one handle in the making: the handle as it will be, and
// what is written beside it in the same commit. A function on an edit may run
// several times, each time on a fresh record. So its only effects are those on
// the edit, and on what it tells its caller.
type edit struct {
	ctx   context.Context
	store *Store
	id    ID
	now   time.Time
	again bool // now is that of an earlier try, and the handle may have what that has done

	was   *Handle // as it is stored; nil: there is none
	h     *Handle // as it will be, the edit's own; nil: there is none
	dirty bool    // h differs from was
	log   []ChangeKind

	only    []kvstore.Precondition
	puts    []kvstore.Put
	deletes [][]byte
}

const (
	// maxConflicts is how often an edit is tried again because another writer
	// was faster.
	maxConflicts = 1000
	// uncertainTries is how often an edit is tried whose acknowledgement gets
	// lost.
	uncertainTries = 4
)

// edit applies f to a handle and commits what changed. A handle whose deadline
// has passed ends first, in a commit of its own. When edit returns an error of
// f, nothing of f was committed, unless it is a kvstore.ErrUncertain too: then an
// earlier try may have been.
func (s *Store) edit(ctx context.Context, id ID, f func(*edit) error) error {
	for {
		expired := false
		err := s.commit(ctx, id, func(e *edit) error {
			if expired = e.h != nil && e.h.overdue(e.now); expired {
				e.expire()
				return nil
			}
			return f(e)
		})
		if err != nil || !expired {
			return err
		}
	}
}

// commit is edit, for a handle as it is. Where the id tells when it was made, no
// other is changed, and none is made.
func (s *Store) commit(ctx context.Context, id ID, f func(*edit) error) error {
	commit, uncertain, now := s.sessions.NewID("w"), 0, time.Time{}
	made := id.Made
	id.Made = time.Time{} // tellers know handles by their names
	var last *edit        // that was tried
	for conflicts := 0; ; {
		unsure := func(err error) error {
			if err != nil && uncertain > 0 && !errors.Is(err, kvstore.ErrUncertain) {
				return fmt.Errorf("%w: %w", kvstore.ErrUncertain, err)
			}
			return err
		}
		h, rev, err := s.get(ctx, id)
		if err != nil {
			return unsure(err)
		}
		if !made.IsZero() && (h == nil || !h.is(made)) {
			return unsure(unknown(id))
		}
		if uncertain > 0 && h != nil && h.Upkeep.Commit == commit {
			last.done() // only an acknowledgement was lost
			return nil
		}
		if uncertain == 0 {
			now = s.sessions.Now()
		}
		e := &edit{ctx: ctx, store: s, id: id, now: now, again: uncertain > 0, was: h,
			only: []kvstore.Precondition{{Key: handleKey(id), Revision: rev}}}
		last = e
		if h != nil {
			own := *h
			e.h = &own
		}
		if err := f(e); err != nil {
			return unsure(err)
		}
		batch, err := e.batch(commit)
		if err != nil || len(batch.Puts)+len(batch.Deletes) == 0 {
			return unsure(err)
		}
		_, err = s.kv.Apply(ctx, batch)
		switch {
		case err == nil:
			e.done()
			return nil
		case errors.Is(err, kvstore.ErrConflict):
			conflicts++
		case errors.Is(err, kvstore.ErrUncertain):
			uncertain++
		}
		if conflicts == maxConflicts || uncertain == uncertainTries || ctx.Err() != nil ||
			!errors.Is(err, kvstore.ErrConflict) && !errors.Is(err, kvstore.ErrUncertain) {
			return unsure(fmt.Errorf("wait handle %q: %w", id.Name, err))
		}
	}
}

// done tells those who wait for a commit of this process.
func (e *edit) done() {
	if e.h != nil && e.h.Upkeep.Tells {
		e.store.tellers.Tell(e.id)
	}
	due := e.dirty && e.h != nil && !e.h.Upkeep.Due.IsZero() &&
		(e.was == nil || !e.h.Upkeep.Due.Equal(e.was.Upkeep.Due))
	e.store.sessions.SignalWaits(e.id.Scope, due)
}

// batch returns what is written.
func (e *edit) batch(commit string) (b kvstore.Batch, err error) {
	if e.dirty && e.h != nil {
		e.h.Upkeep.Commit = commit
		e.place()
		if err := e.put(handleKey(e.id), e.h); err != nil {
			return b, err
		}
	}
	if e.dirty && e.h == nil {
		e.deletes = append(e.deletes, handleKey(e.id))
		if key := e.was.dueKey(); key != nil {
			e.deletes = append(e.deletes, key)
		}
	}
	if e.dirty {
		e.index()
		if err := e.count(); err != nil {
			return b, err
		}
	}
	return kvstore.Batch{Preconditions: e.only, Puts: e.puts, Deletes: e.deletes}, nil
}

func (e *edit) put(key []byte, v any) error {
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("wait handle %q: %w", e.id.Name, err)
	}
	e.puts = append(e.puts, kvstore.Put{Key: key, Value: b})
	return nil
}

// place puts the handle at its place among what is due.
func (e *edit) place() {
	want, u := time.Time{}, &e.h.Upkeep
	switch {
	case u.Tries > 0:
		want = u.Retry
	case u.Tells:
		want = atOnce(e.now)
		if e.was != nil && e.was.Upkeep.Tells && e.was.Upkeep.Tries == 0 {
			want = e.was.Upkeep.Due
		}
	case e.h.End != nil: // kept from when it is known, which may be long after a deadline
		want = e.now.Add(e.store.o.Ended)
	default:
		want = e.h.Deadline
	}
	u.Due = want
	var was []byte
	if e.was != nil {
		was = e.was.dueKey()
	}
	now := e.h.dueKey()
	if bytes.Equal(was, now) {
		return
	}
	if was != nil {
		e.deletes = append(e.deletes, was)
	}
	if now != nil {
		e.puts = append(e.puts, kvstore.Put{Key: now})
	}
}

// expire ends a handle at its deadline, whenever that is applied.
func (e *edit) expire() {
	at := e.h.Deadline
	end := End{Status: TimedOut, Error: notInTime, Actor: byDeadline, At: at}
	if e.h.Type == timerType {
		end = End{Status: Completed, Actor: byDeadline, At: at}
	}
	e.end(end)
}

// mine reports whether what was done at that time was done by a try of this edit
// whose acknowledgement got lost.
func (e *edit) mine(at time.Time) bool { return e.again && at.Equal(e.now) }

// notInTime is the error of what is timed out.
const notInTime = "it was not completed in time"

// byDeadline is the actor of an end that came by itself.
const byDeadline = "deadline"

// end ends the handle.
func (e *edit) end(end End) {
	e.h.End, e.dirty = &end, true
	e.log = append(e.log, Ended)
	if p := e.h.Permits; e.h.Upkeep.Waits || p != nil && p.Queued > 0 {
		e.tell()
	}
}

// tell notes that sessions are to be told something.
func (e *edit) tell() {
	u := &e.h.Upkeep
	u.Tells, u.Tries, u.Retry, e.dirty = true, 0, time.Time{}, true
}

// tooLarge refuses a value that a record has no room for.
func tooLarge(what string, got, most int) error {
	if got <= most {
		return nil
	}
	return fmt.Errorf("%w: the %s has %d bytes, at most %d are kept", ErrInvalid, what, got, most)
}

// The most that a handle keeps, in bytes.
const (
	maxMetadata = 8 << 10
	maxProgress = 8 << 10
	maxResult   = 32 << 10
	maxError    = 9 << 10 // a task's note, of 2,000 characters, fits
)

// checkID refuses a name that can't be one.
func checkID(id ID) error {
	if id.Scope == "" {
		return fmt.Errorf("%w: it has no scope", ErrInvalid)
	}
	if err := session.CheckID("wait handle's id", id.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
