package runner

import (
	"context"

	"github.com/fermata-ai/fermata/internal/session"
)

// EndEvent is an event for a call of a session: for one that takes events of the
// name, see tool.Spec.Mailbox. Its payload is {"session": "…"} with the id of
// the session whose run is over.
type EndEvent struct {
	Session string
	Event   string // its name
}

// TellEnd has a call of another session told, by an event, once the run of a
// session is over that goes on now, or waits; also if the session is deleted. It
// tells whether the run is over in the commit that stores this, so no end comes
// between. Over: no run goes on, and nothing will be told.
//
// It is safe to repeat: a receiver is told once of each run by each name.
func (rn *Runner) TellEnd(
	ctx context.Context, sessionID string, e EndEvent, actor Actor,
) (over bool, err error) {
	op := Operation{Kind: OpFollow, Actor: actor, Session: sessionID}
	if _, err := rn.visible(ctx, op); err != nil {
		return false, err
	}
	own := session.EndEvent{Session: e.Session, Event: e.Event, ID: rn.store.NewID("end")}
	if err := own.Check(); err != nil {
		return false, err
	}
	err = rn.store.Update(ctx, sessionID, func(tx *session.Tx) (err error) {
		own.ID = rn.store.NewID("end") // an earlier try may have been told
		over, err = tx.TellEnd(own)
		return err
	})
	return over, err
}
