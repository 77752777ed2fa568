package wide

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// NewHandle is a handle in the making, as the store takes it: what the runner has
// made of a model's wish, or of a program's (runner.NewWait), with its maker.
type NewHandle struct {
	Type     string
	Metadata json.RawMessage
	Timeout  time.Duration // from its creation; zero: it has no deadline
	Maker    Maker
	Permits  int // how many calls may hold it at a time; zero: none
}

// Create makes a handle. The same call may make it again, and gets the one that
// it has made: made is false then. Another one is an ErrTaken.
func (s *Store) Create(ctx context.Context, id ID, n NewHandle) (h *Handle, made bool, err error) {
	if err := n.check(id); err != nil {
		return nil, false, err
	}
	err = s.edit(ctx, id, func(e *edit) error {
		made = false
		switch {
		case e.h == nil:
			e.create(n)
			made = true
		case e.mine(e.h.Created) && e.h.Maker.Actor == n.Maker.Actor:
			made = true
		case n.Maker.Call == "" || n.Maker.Call != e.h.Maker.Call:
			return fmt.Errorf("%w: %q, which is %s since %s", ErrTaken, id.Name, e.h.Status(),
				e.h.Created.Format(time.RFC3339))
		}
		h = e.h
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return h, made, nil
}

// create makes the handle, which is absent.
func (e *edit) create(n NewHandle) {
	e.h = &Handle{Version: session.Version, Scope: e.id.Scope, Name: e.id.Name, Type: n.Type,
		Metadata: n.Metadata, Created: e.now, Maker: n.Maker}
	if n.Timeout > 0 {
		e.h.Deadline = e.now.Add(n.Timeout.Truncate(time.Millisecond))
	}
	if n.Permits > 0 {
		e.h.Permits = &Permits{Most: n.Permits}
	}
	e.dirty = true
	e.log = append(e.log, Created)
}

func (n *NewHandle) check(id ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	switch {
	case n.Type == "" || len(n.Type) > 64:
		return fmt.Errorf("%w: its type %.80q is none", ErrInvalid, n.Type)
	case n.Timeout < 0 || n.Permits < 0:
		return fmt.Errorf("%w: its time-out, or the number of its permits, is negative", ErrInvalid)
	case n.Type == timerType && n.Timeout == 0:
		return fmt.Errorf("%w: a timer needs a time-out, which completes it", ErrInvalid)
	}
	return checkJSON("metadata", n.Metadata, maxMetadata)
}

// checkJSON refuses what is no JSON, or too long. Nothing is allowed.
func checkJSON(what string, value json.RawMessage, most int) error {
	if len(value) == 0 {
		return nil
	}
	if _, err := strictjson.Hash(value); err != nil {
		return fmt.Errorf("%w: the %s: %w", ErrInvalid, what, err)
	}
	return tooLarge(what, len(value), most)
}
