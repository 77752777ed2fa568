package wide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// What sessions are told of a handle is an errand of the handle: the commit that
// makes it due notes it, and it stays due until the sessions have it. It may be
// told more than once, and a session counts it once.

// toldAtOnce is how many sessions are read at once.
const toldAtOnce = 64

// Tell tells the sessions that wait what has become of a handle. It returns
// those that it has told something, which may have work now. What fails stays
// due, for this process or another one. A while later if something is damaged:
// that fails in all of them.
func (s *Store) Tell(ctx context.Context, id ID) (told []string, err error) {
	h, _, err := s.get(ctx, id)
	if err != nil || h == nil || !h.Upkeep.Tells {
		return nil, err
	}
	var errs []error
	note := func(all []string, err error) {
		told = append(told, all...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if h.End != nil {
		note(s.tellWaiters(ctx, h))
		note(s.tellClaims(ctx, h))
	}
	note(s.tellGiven(ctx, id))
	failed := errors.Join(errs...)
	damaged := errors.Is(failed, session.ErrCorrupt)
	if ctx.Err() != nil || failed != nil && !damaged {
		return told, failed
	}
	return told, errors.Join(failed, s.told(ctx, id, damaged))
}

// told notes that all were told, or when to try again.
func (s *Store) told(ctx context.Context, id ID, damaged bool) error {
	return s.commit(ctx, id, func(e *edit) error {
		if e.h == nil || !e.h.Upkeep.Tells {
			return nil
		}
		u := &e.h.Upkeep
		if damaged {
			e.putOff()
			return nil
		}
		// What came meanwhile has written the handle, and stands there.
		open := [][]byte{givenPrefix(id)}
		if e.h.End != nil {
			open = append(open, waitersPrefix(id), queuePrefix(id))
		}
		for _, prefix := range open {
			page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: prefix, Limit: 1})
			if err != nil || len(page.Entries) > 0 {
				return err
			}
		}
		u.Tells, u.Tries, u.Retry, e.dirty = false, 0, time.Time{}, true
		return nil
	})
}

// putOff has what is due of the handle, and has failed, tried again later.
func (e *edit) putOff() {
	u := &e.h.Upkeep
	u.Tries++
	u.Retry, e.dirty = e.now.Add(retryWait(u.Tries)), true
}

// retryWait is how long after so many failures in a row sessions are told again.
func retryWait(tries int) time.Duration {
	return min(time.Minute, 100*time.Millisecond<<min(tries, 10))
}

// each visits the entries under a prefix that a handle's commits don't add to
// any more, or whose order doesn't matter.
func (s *Store) each(ctx context.Context, prefix []byte, visit func(kvstore.Entry) error) error {
	r := kvstore.Range{Prefix: prefix, Limit: toldAtOnce}
	var errs []error
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, e := range page.Entries {
			r.After = e.Key
			if err := visit(e); err != nil {
				errs = append(errs[:min(len(errs), 8)], err)
			}
			if ctx.Err() != nil {
				return errors.Join(append(errs, context.Cause(ctx))...)
			}
		}
		if !page.More {
			return errors.Join(errs...)
		}
	}
}

// tellWaiters tells the end of a handle.
func (s *Store) tellWaiters(ctx context.Context, h *Handle) (told []string, err error) {
	err = s.each(ctx, waitersPrefix(h.ID()), func(e kvstore.Entry) error {
		var w waiters
		if err := decode(e, &w); err != nil {
			return err
		}
		if err := s.sessions.TellWait(ctx, w.Session, w.Calls, h.End.Status == Completed); err != nil {
			return fmt.Errorf("session %q: %w", w.Session, err)
		}
		told = append(told, w.Session)
		return s.forget(ctx, e)
	})
	return told, err
}

// tellClaims tells the end of a handle to those that wait for its permits.
func (s *Store) tellClaims(ctx context.Context, h *Handle) (told []string, err error) {
	id := h.ID()
	err = s.each(ctx, queuePrefix(id), func(e kvstore.Entry) error {
		var c Claim
		rev, err := s.read(ctx, claimKey(id, string(e.Value)), &c)
		if err != nil || rev == 0 {
			return err
		}
		call := WaitingCall{Call: c.Call, Pause: c.Pause, All: true}
		if err := s.sessions.TellWait(ctx, c.Session, []WaitingCall{call}, false); err != nil {
			return fmt.Errorf("session %q: %w", c.Session, err)
		}
		told = append(told, c.Session)
		return s.Release(ctx, id, c)
	})
	return told, err
}

// tellGiven tells calls that they have a permit. One that waits for it no more
// gives it back.
func (s *Store) tellGiven(ctx context.Context, id ID) (told []string, err error) {
	err = s.each(ctx, givenPrefix(id), func(e kvstore.Entry) error {
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 5 {
			return fmt.Errorf("%w: %q", session.ErrCorrupt, e.Key)
		}
		var c Claim
		rev, err := s.read(ctx, claimKey(id, parts[4]), &c)
		if err != nil {
			return err
		}
		if rev != 0 {
			held, err := s.sessions.TellPermit(ctx, c.Session, c.held(id))
			if err != nil {
				return fmt.Errorf("session %q: %w", c.Session, err)
			}
			told = append(told, c.Session)
			if !held {
				if err := s.Release(ctx, id, c); err != nil {
					return err
				}
			}
		}
		return s.forget(ctx, e)
	})
	return told, err
}

// held is the claim as its call has it.
func (c *Claim) held(id ID) session.HeldPermit {
	return session.HeldPermit{Scope: id.Scope, Name: id.Name, Call: c.Call, Pause: c.Pause}
}

// forget deletes an entry, unless it was written anew.
func (s *Store) forget(ctx context.Context, e kvstore.Entry) error {
	_, err := s.kv.Apply(ctx, kvstore.Batch{Deletes: [][]byte{e.Key},
		Preconditions: []kvstore.Precondition{{Key: e.Key, Revision: e.Revision}}})
	if errors.Is(err, kvstore.ErrConflict) {
		return nil
	}
	return err
}
