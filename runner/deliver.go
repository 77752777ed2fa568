package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// Mail is an outside event for a call.
type Mail struct {
	Call string // the call's id, or that of one of its pauses
	Name string // of an event in the tool's Mailbox
	// ID is the sender's id of the event. A second event of that name and id is
	// a duplicate if its payload is equal, and otherwise a conflict.
	ID      string
	Payload json.RawMessage // a JSON value that fits the event's schema

	Actor    Actor  // who sends
	Delivery string // an id of the delivery, kept with the receipt
	// Sender is the outside system that has signed the event, as a verifier has
	// found; empty: none. One with a MailboxEvent.Sender is taken from that one
	// alone.
	Sender string

	question string // that it answers, see tool.Mail
	person   bool
	// given is what a caller gave, if the payload is what that means; nil: it
	// is the payload.
	given json.RawMessage
}

// Mailbox is what is known of the events for a call.
type Mailbox struct {
	Takes []string `json:"takes,omitempty"` // the names of those that it takes, while it is open
	Count int      `json:"count"`           // how many have come; Received lists them
	Shown int      `json:"shown"`           // how many of them, from the first, its body was shown
}

// Deliver takes outside events to calls of one session. It judges each by
// itself, in one commit: accepted, duplicate of an earlier one of the same name
// and id with the same content, or refused, with an error in its receipt. After
// nil, at least one is accepted or duplicate, and what was accepted is durable.
// The refusals are errors of package session. If the Authorizer refuses one
// event, none is accepted.
//
// A call takes the events of its tool's Spec.Mailbox from when it is asked for
// until it settles, whether or not it waits: an event that comes between two of
// its pauses counts for the next one. After that, an event that was accepted
// before is a duplicate, whose Fate is session.FateSuperseded if the tool was
// never shown it. Any other is refused with how the call ended, in a
// *session.SettledError.
func (rn *Runner) Deliver(ctx context.Context, sessionID string, events ...Mail) (*Resumed, error) {
	if len(events) == 0 || len(events) > maxResumptions {
		return nil, fmt.Errorf("%w: Deliver takes 1 to %d events at once, not %d",
			session.ErrInvalidResumePayload, maxResumptions, len(events))
	}
	mail, misfits := make([]*session.IncomingMail, len(events)), make([]error, len(events))
	for i, e := range events {
		op := about(OpDeliver, sessionID, e.Call, e.Actor)
		op.Event = e.Name
		if err := rn.authorize(ctx, op); err != nil {
			return nil, err
		}
		mail[i], misfits[i] = rn.incomingMail(e)
	}
	out := &Resumed{rn: rn, session: sessionID, Receipts: make([]session.Receipt, len(events))}
	judges := make([]judge, len(events))
	err := judged(judges, func() error {
		return rn.store.Update(ctx, sessionID, func(tx *session.Tx) (err error) {
			for i := range events {
				if misfits[i] != nil {
					out.Receipts[i] = mail[i].Refused(tx.Now, misfits[i])
					continue
				}
				fits := judges[i].fits(ctx, rn, tx.Agent)
				if out.Receipts[i], err = tx.Deliver(mail[i], fits); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, refusal(out.Receipts)
}

// incomingMail returns an event as the session judges it, also beside an error,
// which is the event's own, for its receipt.
func (rn *Runner) incomingMail(e Mail) (*session.IncomingMail, error) {
	in := &session.IncomingMail{
		Call: session.CallID(e.Call), Name: e.Name, ID: e.ID, Sender: e.Sender,
		Actor:    modeltext.CleanString(string(e.Actor)),
		Delivery: modeltext.CleanString(e.Delivery),
		Question: e.question, Person: e.person,
	}
	misfit := func(err error) error {
		which := session.EventID{Name: e.Name, ID: e.ID}
		return &session.PayloadError{Event: which.String(), Err: err}
	}
	if err := session.CheckID("event's id", e.ID); err != nil {
		return in, err
	}
	if err := session.CheckID("event's name", e.Name); err != nil {
		return in, err
	}
	if len(in.Actor) > maxName || len(in.Delivery) > maxName {
		return in, misfit(fmt.Errorf(
			"its actor has %d bytes and its delivery %d, at most %d are taken",
			len(in.Actor), len(in.Delivery), maxName))
	}
	value := modeltext.CleanJSON(e.Payload)
	if len(value) == 0 {
		return in, misfit(errors.New("the payload is empty; an event without content is null"))
	}
	if n := len(value); n > rn.options.MaxAnswer {
		return in, misfit(fmt.Errorf("it has %d bytes, at most %d are taken",
			n, rn.options.MaxAnswer))
	}
	var err error
	given := value
	if e.given != nil {
		given = modeltext.CleanJSON(e.given)
	}
	if in.Hash, err = hashContent(given); err != nil {
		return in, misfit(err)
	}
	if in.Payload, err = session.NewBlob(value); err != nil {
		return in, misfit(err)
	}
	in.Value = in.Payload.JSON()
	return in, nil
}

// Received lists the events that have come for a call, in the order in which
// they were accepted, while the call is open and for as long as receipts are
// kept.
func (rn *Runner) Received(
	ctx context.Context, sessionID, call string, actor Actor,
) iter.Seq2[tool.Mail, error] {
	call = session.CallID(call)
	return func(yield func(tool.Mail, error) bool) {
		op := Operation{Kind: OpShow, Actor: actor, Session: sessionID, Call: call}
		st, err := rn.visible(ctx, op)
		if err == nil && st.Call(call) == nil {
			_, _, err = rn.store.Record(ctx, sessionID, call)
		}
		if err != nil {
			yield(tool.Mail{}, err)
			return
		}
		rn.store.Received(ctx, sessionID, call)(yield)
	}
}
