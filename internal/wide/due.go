package wide

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/usererr"
	"github.com/fermata-ai/fermata/kvstore"
)

// Due is a handle that stands among what is due.
type Due struct {
	ID  ID
	Key []byte // in the index
}

// DuePage is some of what is due, the longest due first.
type DuePage struct {
	Due  []Due
	More bool
	// Next is when the next one will be due; zero: there is more, or nothing else.
	Next time.Time
}

// Due lists a page of the handles that are to end, or to tell, after a key.
func (s *Store) Due(ctx context.Context, after []byte) (DuePage, error) {
	return s.due(ctx, dueIndex, after)
}

// Outlived lists a page of the handles that have outlived their retention, after
// a key.
func (s *Store) Outlived(ctx context.Context, after []byte) (DuePage, error) {
	return s.due(ctx, removedIndex, after)
}

func (s *Store) due(ctx context.Context, index string, after []byte) (p DuePage, err error) {
	now := s.sessions.Now()
	page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key(kind, index), After: after, Limit: 256})
	if err != nil {
		return p, err
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
			p.Next = t
			return p, nil
		}
		p.Due = append(p.Due, Due{ID{Scope: parts[3], Name: parts[4]}, e.Key})
	}
	p.More = page.More
	return p, nil
}

// Expire ends handles of a scope whose deadline has passed, the longest overdue
// first, and some of them: a worker ends the others.
func (s *Store) Expire(ctx context.Context, scope string) error {
	var after []byte
	for range 4 {
		page, err := s.Due(ctx, after)
		if err != nil {
			return err
		}
		for _, d := range page.Due {
			after = d.Key
			if d.ID.Scope != scope {
				continue
			}
			if _, err := s.Get(ctx, d.ID); err != nil && !errors.Is(err, ErrUnknown) &&
				!errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNewerVersion) {
				return err
			}
		}
		if !page.More {
			break
		}
	}
	return nil
}

// Attend does what is due of a handle: it ends at its deadline, and sessions are
// told of it. It returns the sessions that were told something. An entry of a
// handle that isn't there, or stands elsewhere, goes.
func (s *Store) Attend(ctx context.Context, d Due) (told []string, err error) {
	h, err := s.at(ctx, d)
	if err != nil || h == nil {
		return nil, err
	}
	if h.overdue(s.sessions.Now()) {
		if err := s.edit(ctx, d.ID, func(*edit) error { return nil }); err != nil {
			return nil, err
		}
	}
	return s.Tell(ctx, d.ID)
}

// Remove removes a handle that has outlived its retention, after it was
// archived. With Options.Archive that calls code of others, and the caller runs
// it where nothing else waits for it.
func (s *Store) Remove(ctx context.Context, d Due) error {
	h, err := s.at(ctx, d)
	if err != nil || h == nil {
		return err
	}
	return s.remove(ctx, h)
}

// at returns the handle of an entry. If it isn't there, or stands elsewhere, the
// entry goes; nil is returned then. A damaged handle is put off. One that a newer
// program has written stays due, for that program.
func (s *Store) at(ctx context.Context, d Due) (*Handle, error) {
	h, rev, err := s.get(ctx, d.ID)
	switch {
	case errors.Is(err, session.ErrCorrupt):
		return nil, errors.Join(err, s.putOff(ctx, d))
	case err != nil:
		return nil, err
	case h == nil || string(h.dueKey()) != string(d.Key):
		return nil, s.misplaced(ctx, d, h, rev)
	}
	return h, nil
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
	if h != nil && h.dueKey() != nil {
		b.Puts = []kvstore.Put{{Key: h.dueKey()}}
	}
	_, err := s.kv.Apply(ctx, b)
	if errors.Is(err, kvstore.ErrConflict) {
		err = nil
	}
	return err
}

// unreadWait is how long a damaged handle is left alone.
const unreadWait = time.Minute

// putOff moves an entry to a later time, in its index.
func (s *Store) putOff(ctx context.Context, d Due) error {
	parts, err := kvstore.Parts(d.Key)
	if err != nil {
		return err
	}
	_, err = s.kv.Apply(ctx, kvstore.Batch{Deletes: [][]byte{d.Key},
		Puts: []kvstore.Put{{Key: dueKey(parts[1], s.sessions.Now().Add(unreadWait), d.ID)}}})
	return err
}

// remove archives a handle and removes it.
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
	return usererr.Use(s.o.Archive(ctx, &own))
}
