package wide

import (
	"context"
	"fmt"

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
// handle as it is: if that has ended, the call isn't told any more. A handle
// forgets the calls of the session that wait no more.
//
// The handle's record is a precondition, and isn't written but for the first
// session. So any number of calls register side by side, and none after the end.
func (s *Store) Register(
	ctx context.Context, id ID, sessionID string, call WaitingCall,
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
		others, err := s.stillWaiting(ctx, sessionID, w.Calls, call)
		if err != nil {
			return err
		}
		w.Calls = append(others, call)
		e.only = append(e.only, kvstore.Precondition{Key: key, Revision: rev})
		if !h.Upkeep.Waits {
			e.h.Upkeep.Waits, e.dirty = true, true
		}
		return e.put(key, &w)
	})
	return h, err
}

// stillWaiting returns those of some calls, but for one, that wait at the pause
// at which they had registered. The session is read after them, and each has had
// its pause committed before it registered: so one that waits no more never does
// again. What a drive knows of its session wouldn't do, as it may be old: that
// drive may have been stopped, and another one have registered since.
func (s *Store) stillWaiting(
	ctx context.Context, sessionID string, calls []WaitingCall, but WaitingCall,
) (all []WaitingCall, err error) {
	var st *session.State
	for _, c := range calls {
		if c == but {
			continue
		}
		if st == nil {
			if st, err = s.sessions.Load(ctx, sessionID); err != nil {
				return nil, err
			}
		}
		if now := st.Call(c.Call); now != nil && now.Status == session.Pending && now.Pauses == c.Pause {
			all = append(all, c)
		}
	}
	return all, nil
}
