package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// EndEvent is an event for a call of another session: that the first run of
// this one is over. It stands in the head from the session's begin until that
// run ends, and then in the outbox.
type EndEvent struct {
	Session string `json:"session"` // the receiver
	Event   string `json:"event"`   // its name, in the mailbox of the call
	ID      string `json:"id"`      // of the event

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Check returns what is wrong with an event that is to be sent. E may be nil.
func (e *EndEvent) Check() error {
	if e == nil {
		return nil
	}
	if err := CheckID("receiver of the end", e.Session); err != nil {
		return err
	}
	if err := CheckID("event's name", e.Event); err != nil {
		return err
	}
	return CheckID("event's id", e.ID)
}

// oweEndEvent is part of each commit: if by it the run is over, the session that
// waits for that is owed the event.
func (tx *Tx) oweEndEvent() {
	if tx.EndEvent == nil || !tx.runOver() {
		return
	}
	tx.owe(Errand{Kind: ErrandEvent, To: tx.EndEvent.Session, Event: tx.EndEvent})
	tx.EndEvent = nil
}

// errNotListening keeps an event in the outbox: the receiver is between two
// calls.
var errNotListening = errors.New("session: no call takes the event just now")

// tellEndEvent delivers the event to the receiver's open call that takes it. A
// receiver whose run is over isn't told, nor one that has no room: it finds out
// by itself.
func (s *Store) tellEndEvent(ctx context.Context, st *State, e *Errand) error {
	payload, err := NewBlob([]byte(fmt.Sprintf(`{"session":%s}`, strictjson.AppendString(nil, st.ID))))
	if err != nil {
		return err
	}
	hash, err := strictjson.Hash(payload.JSON())
	if err != nil {
		return err
	}
	fits := s.Fits(ctx)
	return s.tell(ctx, e.To, func(tx *Tx) error {
		for i := range tx.Calls {
			c := &tx.Calls[i]
			kind := c.Mailbox.kind(e.Event.Event)
			if c.Status == Settled || kind == nil || kind.Gone {
				continue
			}
			_, err := tx.Deliver(&IncomingMail{Call: c.ID, Name: e.Event.Event, ID: e.Event.ID,
				Value: payload.JSON(), Payload: payload, Hash: hash, Actor: st.ID}, fits)
			return err
		}
		if tx.runOver() {
			return nil
		}
		return errNotListening
	})
}
