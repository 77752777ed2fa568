package wide

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// Due is a handle that stands among what is due.
type Due struct {
	ID  ID
	Key []byte // in the index
}

// Due lists a page of the handles that are due, the longest due first, after a
// key. After the last page, next is when the next one will be due.
func (s *Store) Due(ctx context.Context, after []byte) (due []Due, more bool, next time.Time, err error) {
	now := s.sessions.Now()
	page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key(kind, "d"), After: after, Limit: 256})
	if err != nil {
		return nil, false, next, err
	}
	for _, e := range page.Entries {
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 5 {
			continue // Check reports it
		}
		at, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			continue
		}
		if t := time.UnixMilli(at); t.After(now) {
			return due, false, t, nil
		}
		due = append(due, Due{ID{parts[3], parts[4]}, e.Key})
	}
	return due, page.More, next, nil
}

// Expire ends handles of a scope whose deadline has passed, the longest overdue
// first, and some of them: a worker ends the others.
func (s *Store) Expire(ctx context.Context, scope string) error {
	var after []byte
	for range 4 {
		due, more, _, err := s.Due(ctx, after)
		if err != nil {
			return err
		}
		for _, d := range due {
			after = d.Key
			if d.ID.Scope != scope {
				continue
			}
			if _, err := s.Get(ctx, d.ID); err != nil && !errors.Is(err, ErrUnknown) &&
				!errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNewerVersion) {
				return err
			}
		}
		if !more {
			break
		}
	}
	return nil
}

// Attend does what is due of a handle: it ends at its deadline, sessions are told
// of it, it is removed once it has outlived its retention. It returns the
// sessions that were told something. An entry of a handle that isn't there, or
// stands elsewhere, goes.
//
// With Options.Archive a handle is removed by rest: that calls code of others,
// and the caller runs it where nothing else waits for it.
func (s *Store) Attend(
	ctx context.Context, d Due,
) (told []string, rest func(context.Context) error, err error) {
	h, rev, err := s.get(ctx, d.ID)
	switch {
	case err != nil:
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerVersion) {
			err = errors.Join(err, s.putOff(ctx, d))
		}
		return nil, nil, err
	case h == nil || string(dueKey(h.Upkeep.Due, d.ID)) != string(d.Key):
		return nil, nil, s.misplaced(ctx, d, h, rev)
	case h.overdue(s.sessions.Now()):
		if err := s.edit(ctx, d.ID, func(*edit) error { return nil }); err != nil {
			return nil, nil, err
		}
	case !h.Upkeep.Tells && h.End != nil && s.o.Archive != nil:
		return nil, func(ctx context.Context) error { return s.remove(ctx, h) }, nil
	case !h.Upkeep.Tells && h.End != nil:
		return nil, nil, s.remove(ctx, h)
	}
	told, err = s.Tell(ctx, d.ID)
	return told, nil, err
}

// misplaced removes an entry whose handle stands elsewhere, as one does that has
// changed meanwhile, or could not be read for a while.
func (s *Store) misplaced(ctx context.Context, d Due, h *Handle, rev kvstore.Revision) error {
	if _, err := s.kv.Get(ctx, d.Key); err != nil {
		if errors.Is(err, kvstore.ErrNotFound) {
			err = nil
		}
		return err
	}
	b := kvstore.Batch{Deletes: [][]byte{d.Key},
		Preconditions: []kvstore.Precondition{{Key: handleKey(d.ID), Revision: rev}}}
	if h != nil && !h.Upkeep.Due.IsZero() {
		b.Puts = []kvstore.Put{{Key: dueKey(h.Upkeep.Due, d.ID)}}
	}
	_, err := s.kv.Apply(ctx, b)
	if errors.Is(err, kvstore.ErrConflict) {
		err = nil
	}
	return err
}

// unreadWait is how long a handle that can't be read is left alone.
const unreadWait = time.Minute

// putOff moves an entry to a later time.
func (s *Store) putOff(ctx context.Context, d Due) error {
	_, err := s.kv.Apply(ctx, kvstore.Batch{Deletes: [][]byte{d.Key},
		Puts: []kvstore.Put{{Key: dueKey(s.sessions.Now().Add(unreadWait), d.ID)}}})
	return err
}

// remove removes a handle that has outlived its retention, after it was
// archived.
func (s *Store) remove(ctx context.Context, h *Handle) error {
	id := h.ID()
	if s.o.Archive != nil {
		if err := s.archive(ctx, h); err != nil {
			// The time to archive it may be over, and that is another one.
			return errors.Join(err, s.commit(context.WithoutCancel(ctx), id, func(e *edit) error {
				if e.h != nil && e.h.End != nil {
					e.putOff()
				}
				return nil
			}))
		}
	}
	for more := true; more; {
		err := s.commit(ctx, id, func(e *edit) (err error) {
			more = false
			if e.h == nil || e.h.End == nil || e.h.Upkeep.Tells {
				return nil
			}
			if more, err = e.dropClaims(); err != nil || more {
				return err
			}
			e.h, e.dirty = nil, true
			e.log = append(e.log, Removed)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// archive calls Options.Archive. If that panics, that is its error.
func (s *Store) archive(ctx context.Context, h *Handle) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("wait handle %q: Archive panicked: %v", h.Name, p)
		}
	}()
	own := *h
	return s.o.Archive(ctx, &own)
}
