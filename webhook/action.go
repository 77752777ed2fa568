package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// subject is the call that an action is about, and who acts.
type subject struct {
	session, call string
	pause         string // its id; empty for a token of the call's mailbox
	scope         string // what may be cancelled, or reported: the pause, or the call
	gate          string // of a token
	actor         runner.Actor
}

// act does one thing to a call. Beside an error the answer names the call, as
// far as its sender may know of it.
func (h *byKey) act(ctx context.Context, e Event, a Action) (answer, error) {
	if !a.Do.Known() || a.Do.Decides() {
		return answer{}, fmt.Errorf("webhook: an Action does %q, which is not one of those that "+
			"an event may mean", a.Do)
	}
	at, err := h.subject(ctx, e, a)
	if h.config.Keep != nil && errors.Is(err, session.ErrNotYetKnown) {
		return h.keep(ctx, e, a, err)
	}
	if err != nil {
		return answer{}, err
	}
	done, err := h.do(ctx, e, a, at)
	if errors.Is(err, session.ErrOtherSender) && a.Token == "" {
		return answer{}, h.hidden(e)
	}
	done.Call, done.Pause = at.call, at.pause
	return done, err
}

// subject finds the call of an action.
func (h *byKey) subject(ctx context.Context, e Event, a Action) (subject, error) {
	if a.Token != "" {
		return h.subjectOfToken(ctx, e, a)
	}
	key, actor := cmp.Or(a.Key, e.Key), h.actor(e)
	if key == "" {
		return subject{}, httpin.Refuse("invalid", "the event has no key, by which its call is known")
	}
	if len(key) > tool.MaxKey { // which no tool has given, or will
		return subject{}, errNoSuchKey
	}
	ref := runner.Ref{Tool: cmp.Or(a.Tool, h.config.Tool), Key: key, At: e.Time}
	p, err := h.rn.Find(ctx, ref, actor)
	if errors.Is(err, session.ErrUnknownPause) || errors.Is(err, session.ErrNotYetKnown) {
		err = h.hidden(e)
	}
	if err != nil {
		return subject{}, err
	}
	if p.Await.Sender != "" && p.Await.Sender != e.Sender {
		return subject{}, h.hidden(e)
	}
	return subject{session: p.Session, call: p.Call, pause: p.ID, scope: p.ID, actor: actor}, nil
}

// keep keeps what an event says of a call that isn't known yet; what can't be
// kept is refused as unknown is that.
func (h *byKey) keep(ctx context.Context, e Event, a Action, unknown error) (answer, error) {
	var r runner.Resumption
	switch a.Do {
	case tool.PermitComplete:
		r = runner.Complete("", h.actor(e), a.Payload)
	case tool.PermitFail:
		r = runner.Fail("", h.actor(e), a.Message, a.Retryable)
	default:
		return answer{}, unknown
	}
	r.Delivery, r.Sender = cmp.Or(e.Delivery, e.ID), e.Sender
	ref := runner.Ref{Tool: cmp.Or(a.Tool, h.config.Tool), Key: cmp.Or(a.Key, e.Key)}
	res, err := h.rn.ResumeByKey(ctx, ref, r, h.config.Keep)
	if errors.Is(err, session.ErrOtherSender) {
		err = unknown
	}
	if err != nil {
		return answer{}, err
	}
	return acceptedAs(res.Receipts[0]), nil
}

// hidden is the refusal of a key that no call has, and of one whose call waits
// for another sender: whether there is such a call isn't shown.
func (h *byKey) hidden(e Event) error {
	if !e.Time.IsZero() && h.now().Sub(e.Time) > keyYouth {
		return errNoSuchKey
	}
	return fmt.Errorf("%w: no call has that key", session.ErrNotYetKnown)
}

var errNoSuchKey = httpin.Refuse("unknown_pause", "no call has that key")

// keyYouth is how old an event may be if no call has its key yet, as Runner.Find
// has it.
const keyYouth = time.Hour

// subjectOfToken returns the call of a token, if the token permits the action.
func (h *byKey) subjectOfToken(ctx context.Context, e Event, a Action) (subject, error) {
	t, err := h.rn.ReadToken(ctx, a.Token)
	if err != nil {
		return subject{}, err
	}
	if !t.Allows(a.Do) || a.Do == tool.PermitEvent && !t.Sends(a.Name) {
		return subject{}, httpin.Refuse("not_allowed", "the token in the event does not permit that")
	}
	at := subject{session: t.Session, call: t.Call, scope: t.Scope(), gate: t.Gate,
		actor: cmp.Or(t.Holder, h.actor(e))}
	if t.Pause != 0 {
		at.pause = t.PauseID()
	}
	return at, nil
}

// do carries an action out.
func (h *byKey) do(ctx context.Context, e Event, a Action, at subject) (answer, error) {
	switch a.Do {
	case tool.PermitComplete:
		return h.resume(ctx, e, at, runner.Complete(at.pause, at.actor, a.Payload))
	case tool.PermitFail:
		return h.resume(ctx, e, at, runner.Fail(at.pause, at.actor, a.Message, a.Retryable))
	case tool.PermitProgress:
		beat, err := h.rn.Heartbeat(ctx, at.session, at.scope, at.actor,
			tool.Progress{Message: a.Message, Fraction: a.Fraction, Data: a.Payload})
		return heardAs(beat), err
	case tool.PermitCancel:
		receipt, err := h.rn.Cancel(ctx, at.session, at.scope, at.actor, a.Message)
		return acceptedAs(receipt), err
	}
	id := cmp.Or(a.ID, e.ID, e.Delivery)
	if id == "" {
		return answer{}, httpin.Refuse("no_id",
			"the event has no id, by which a second delivery of it is known")
	}
	res, err := h.rn.Deliver(ctx, at.session, runner.Mail{
		Call: at.call, Name: a.Name, ID: id, Payload: a.Payload,
		Actor: at.actor, Sender: e.Sender, Delivery: cmp.Or(e.Delivery, e.ID),
	})
	if err != nil {
		return answer{}, err
	}
	return acceptedAs(res.Receipts[0]), nil
}

func (h *byKey) resume(ctx context.Context, e Event, at subject, r runner.Resumption) (answer, error) {
	r.Gate, r.Sender, r.Delivery = at.gate, e.Sender, cmp.Or(e.Delivery, e.ID)
	res, err := h.rn.Resume(ctx, at.session, r)
	if err != nil {
		return answer{}, err
	}
	return acceptedAs(res.Receipts[0]), nil
}

func acceptedAs(r session.Receipt) answer {
	return answer{
		Status: statusAccepted, Duplicate: r.Duplicate, Call: r.Call, At: r.At, Fate: r.Fate,
		Event: r.Event.Name, ID: r.Event.ID,
	}
}
