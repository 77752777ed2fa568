// Package wide keeps wait handles of wider scopes than a session: those of a
// user, and those of everyone on the store. Such a handle is no session's
// child. It has a record of its own, under its name, and each change of it is
// one commit.
//
// A commit also brings up to date what is counted of the handles of a scope, the
// index of which lists are pages, and the log of which subscribers read. Both
// the counts and the log are in shards, so that handles that change at once
// seldom wait for each other.
//
// The package tells sessions that wait, and drives none: package runner does.
package wide

// Where things are:
//
//   - a handle's record: record.go; its keys: keys.go; how it changes: edit.go
//   - what is done to it: create.go, end.go
//   - calls that wait for it: register.go; that hold it: permit.go, claim.go; how
//     they are told: tell.go
//   - what is due: due.go; what has outlived its retention: sweep.go
//   - counts: count.go; pages: list.go; changes: log.go
//   - upkeep: check.go

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// Store keeps the wait handles of wider scopes in the engine of a session.Store.
// It may be used from many goroutines, and several may share an engine. After
// New only tellers change, which guard themselves.
type Store struct {
	sessions *session.Store
	kv       session.Engine
	o        Options

	tellers session.Listeners[ID]
}

// Options configure a Store. The zero value means the defaults.
type Options struct {
	// Ended is how long a handle is kept once it has ended; default 30 days.
	Ended time.Duration
	// Changes is how long a change is kept for subscribers; default 30 days.
	Changes time.Duration
	// Archive, if set, is given each handle before it is removed. After an error
	// it is given again later; after a crash it may be given twice.
	Archive func(ctx context.Context, h *Handle) error
}

// New returns a Store over that of the sessions that wait. It takes what calls
// held for the sessions' errands.
func New(sessions *session.Store, o *Options) *Store {
	s := &Store{sessions: sessions, kv: sessions.Engine()}
	if o != nil {
		s.o = *o
	}
	if s.o.Ended <= 0 {
		s.o.Ended = 30 * 24 * time.Hour
	}
	if s.o.Changes <= 0 {
		s.o.Changes = 30 * 24 * time.Hour
	}
	return s
}

// OnTell has f called after each commit of this Store by which sessions are to
// be told something. F must not wait.
func (s *Store) OnTell(f func(ID)) (stop func()) { return s.tellers.Add(f) }

// The refusals.
var (
	ErrUnknown   = errors.New("wait handle: there is none of that name")
	ErrTaken     = errors.New("wait handle: the name is taken")
	ErrEnded     = errors.New("wait handle: it has ended otherwise")
	ErrInvalid   = errors.New("wait handle: invalid")
	ErrBadCursor = errors.New("wait handle: the cursor is not one of this list")
	// ErrChangesGone: what came after the cursor is no longer kept.
	ErrChangesGone = errors.New("wait handle: the changes after the cursor are no longer kept")
)

// EndedError is an ErrEnded, and has how the handle has ended.
type EndedError struct{ Handle *Handle }

func (e *EndedError) Error() string {
	return fmt.Sprintf("%v: %q is %s since %s", ErrEnded, e.Handle.Name, e.Handle.Status(),
		e.Handle.End.At.Format(time.RFC3339))
}

func (e *EndedError) Unwrap() error { return ErrEnded }

// get reads a handle. Without one it is nil.
func (s *Store) get(ctx context.Context, id ID) (*Handle, kvstore.Revision, error) {
	h := new(Handle)
	rev, err := s.read(ctx, handleKey(id), h)
	if err != nil || rev == 0 {
		return nil, 0, err
	}
	return h, rev, nil
}

// Get returns a handle. One whose deadline has passed ends first.
func (s *Store) Get(ctx context.Context, id ID) (*Handle, error) {
	h, _, err := s.get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case h == nil || !h.is(id.Made):
		return nil, unknown(id)
	case !h.overdue(s.sessions.Now()):
		return h, nil
	}
	if err := s.edit(ctx, id, func(*edit) error { return nil }); err != nil {
		return nil, err
	}
	if h, _, err = s.get(ctx, id); err == nil && (h == nil || !h.is(id.Made)) {
		err = unknown(id)
	}
	return h, err
}

func unknown(id ID) error { return fmt.Errorf("%w: %q", ErrUnknown, id.Name) }
