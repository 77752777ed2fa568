package wide

import (
	"context"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// waiters are the calls of a session that wait for a handle.
type waiters struct {
	Session string        `json:"session"`
	Calls   []WaitingCall `json:"calls"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// WaitingCall is a call that waits for a handle.
type WaitingCall = session.WaitingCall

func (w *waiters) check() error {
	if w.Session == "" || len(w.Calls) == 0 {
		return errIncomplete
	}
	for _, c := range w.Calls {
		if c.Call == "" || c.Pause < 1 || c.N < 0 {
			return fmt.Errorf("the call %q waits at no pause", c.Call)
		}
	}
	return nil
}

func (w *waiters) liesAt(key []byte) bool {
	parts, err := kvstore.Parts(key)
	return err == nil && len(parts) == 5 && parts[4] == w.Session
}

// Register has a handle know of a call that waits for its end. It returns the
// handle as it is: if that has ended, the call isn't told any more. Waits
// reports whether another call of the session still waits: a handle forgets
// those that don't.
//
// The handle's record is a precondition, and isn't written but for the first
// session. So any number of calls register side by side, and none after the end.
func (s *Store) Register(
	ctx context.Context, id ID, sessionID string, call WaitingCall, waits func(WaitingCall) bool,
) (h *Handle, err error) {
	key := waiterKey(id, sessionID)
	err = s.edit(ctx, id, func(e *edit) error {
		if h = e.h; h == nil {
			return unknown(id)
		}
		if h.End != nil {
			return nil
		}
		w := waiters{}
		rev, err := s.read(ctx, key, &w)
		if err != nil {
			return err
		}
		w.Session = sessionID
		w.Calls = slices.DeleteFunc(slices.Clone(w.Calls), func(c WaitingCall) bool {
			return c == call || !waits(c)
		})
		w.Calls = append(w.Calls, call)
		e.only = append(e.only, kvstore.Precondition{Key: key, Revision: rev})
		if !h.Upkeep.Waits {
			e.h.Upkeep.Waits, e.dirty = true, true
		}
		return e.put(key, &w)
	})
	return h, err
}
