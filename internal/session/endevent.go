package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// EndEvent is an event for a call of another session: that a run of this one is
// over. It is put into the head while the run goes on, or waits, stands there
// until that ends, and then in the outbox.
type EndEvent struct {
	Session string `json:"session"` // the receiver
	Event   string `json:"event"`   // its name, in the mailbox of the call
	ID      string `json:"id"`      // of the event

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Check returns what is wrong with an event that is to be sent.
func (e *EndEvent) Check() error {
	if err := CheckID("receiver of the end", e.Session); err != nil {
		return err
	}
	if err := CheckID("event's name", e.Event); err != nil {
		return err
	}
	return CheckID("event's id", e.ID)
}

// maxEndEvents is how many sessions are told of the end of one run.
const maxEndEvents = 64

// TellEnd has a call of another session told once the run is over that goes on,
// or waits. Over: none does, and nothing is told. While a session is to be told
// already, by an event of that name, that one stays. So e has an ID of its own
// in each try: the call takes an ID once, and there may be another run.
func (tx *Tx) TellEnd(e EndEvent) (over bool, err error) {
	if tx.standsStill() {
		return true, nil
	}
	tells := func(o EndEvent) bool { return o.Session == e.Session && o.Event == e.Event }
	if slices.ContainsFunc(tx.EndEvents, tells) {
		return false, nil
	}
	if len(tx.EndEvents) >= maxEndEvents {
		return false, fmt.Errorf("session %q: %d sessions are to be told of the end of its run, "+
			"and no more can be", tx.ID, len(tx.EndEvents))
	}
	tx.touch()
	tx.EndEvents = append(slices.Clip(tx.EndEvents), e)
	tx.outdates()
	return false, nil
}

// standsStill reports whether no run goes on, or waits. One that was interrupted
// doesn't: it may never be carried on.
func (s *State) standsStill() bool { return s.runOver() || s.Halt != nil && s.Ending == nil }

// oweEndEvents is part of each commit: if by it the run is over, the sessions
// that wait for that are owed the event.
func (tx *Tx) oweEndEvents() {
	if tx.EndEvents == nil || !tx.standsStill() {
		return
	}
	for _, e := range tx.EndEvents {
		tx.owe(Errand{Kind: ErrandEvent, To: e.Session, Event: &e})
	}
	tx.EndEvents = nil
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
