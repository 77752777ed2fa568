package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// RunOptions configure one Run. Nil means the defaults.
type RunOptions struct {
	// Agent names the agent of a session that the message begins; empty: the
	// runner's first.
	Agent string
	// MessageID makes Run safe to repeat: a message of the same id and content
	// is not appended again, and of another content is
	// session.ErrMessageConflict. The id is the session's own. Of a message
	// that came before only the last event is shown; Show and Follow have the
	// rest.
	MessageID string
	// Detached: when the caller leaves, a worker carries the run on. Otherwise
	// only Continue or Run does, or an answer that is accepted afterwards.
	// Either way the contexts of bodies end when the caller leaves: where that
	// must not be, hand Run a context that outlives the caller, such as
	// context.WithoutCancel, and don't leave.
	Detached bool
	// Concurrency is how many tool calls of a turn run at once, in the run that
	// the message begins; 0: as many as agent.Config.Concurrency says. The runs
	// of nested agents have their own.
	Concurrency int
	// Supersede: calls that wait for a person, or for a tool that is gone, are
	// denied in favour of this message. So are calls that wait for children, if
	// all that goes on below them is such waits; the children are cancelled.
	// While other calls wait, it is refused all the same. If more than eight
	// calls are denied, all but the last of them are denied before the message
	// is stored, and stay denied if it can't be stored.
	Supersede bool
}

// Run takes a user's message to a session, which begins with its first, and
// drives the session until the model is done or calls wait. Nothing happens
// before the result is ranged over; the last event is an event.End, and an
// error comes before it. A run that was not begun (not allowed, busy, another
// user's, no such agent, closed) yields its error alone.
//
// Open calls whose answers were accepted are settled first. If calls still
// wait, the message is refused with a *session.PendingError, unless exactly one
// waits for a person and takes the user's message for its answer, or with
// RunOptions.Supersede. The calls of all sessions below it count as well: an
// answer to one of theirs goes there. If another drive holds the session, the
// error is a *session.BusyError. A refused message leaves nothing, except the
// note of which results it has shown, and the run ends as the session stands:
// paused, if calls wait.
//
// Leaving the loop, or the end of ctx, interrupts the run: Run returns at once,
// and what still runs ends by itself.
func (rn *Runner) Run(
	ctx context.Context, user, sessionID string, m llm.Message, o *RunOptions,
) iter.Seq2[event.Event, error] {
	// The message and the options are the caller's, who may change them before
	// the result is ranged over.
	m = m.Clone()
	var own RunOptions
	if o != nil {
		own = *o
	}
	return func(yield func(event.Event, error) bool) {
		op := Operation{Kind: OpRun, Actor: Actor(user), Session: sessionID}
		in, err := rn.input(ctx, op, m, &own)
		if err == nil {
			_, err = rn.agent(in.agent)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		d, err := rn.newDrive(ctx, sessionID, &session.New{User: user, Agent: in.agent})
		if err != nil {
			yield(nil, err)
			return
		}
		f := &family{rn: rn, ctx: ctx, root: sessionID, yield: yield}
		f.run(d, func(d *drive) error {
			if err := d.clearQueue(); err != nil {
				return err
			}
			taken, err := (&saying{drive: d, in: in}).say()
			if err == nil || taken {
				return err
			}
			err = &untaken{err}
			if in.denied || !refusedMessage(err) && !d.interrupts(err) {
				// What was done for the message, and rides, must not be
				// committed: denials, and the lifting of a halt.
				_ = d.lease.Drop(d.waiting)
				d.closing.lookAgain(d.agent.Name())
			}
			return err
		})
	}
}

// input is a user's message on its way in. The goroutine that drives owns it.
type input struct {
	user, agent string
	message     llm.Message
	entry       *session.Entry
	hash        string
	o           *RunOptions
	denied      bool            // calls were denied, or awaits interrupted, for it
	queued      *session.Queued // where it waits in the queue; nil: it doesn't
}

// untaken is why a message was not taken. The session, which another drive may
// hold, stands as before.
type untaken struct{ error }

func (u *untaken) Unwrap() error { return u.error }

// input checks a message before anything is touched.
func (rn *Runner) input(
	ctx context.Context, op Operation, m llm.Message, o *RunOptions,
) (*input, error) {
	user := string(op.Actor)
	if err := rn.authorize(ctx, op); err != nil {
		return nil, err
	}
	err := errors.Join(session.CheckID("user", user), session.CheckID("session id", op.Session))
	if err != nil {
		return nil, err
	}
	if o.MessageID != "" {
		if err := session.CheckID("message id", o.MessageID); err != nil {
			return nil, err
		}
	}
	in := &input{user: user, o: o, agent: o.Agent}
	if in.agent == "" && rn.first != nil {
		in.agent = rn.first.Name()
	}
	in.message = m.Clean()
	if err := sayable(in.message); err != nil {
		return nil, err
	}
	if in.entry, err = session.NewEntry(in.message); err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrInvalidMessage, err)
	}
	in.hash = in.entry.Hash()
	return in, nil
}

// sayable returns what is wrong with a user's message, or nil.
func sayable(m llm.Message) error {
	if m.Role != llm.RoleUser {
		return fmt.Errorf("%w: its role is %q, and a user's is %q", session.ErrInvalidMessage,
			m.Role, llm.RoleUser)
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			if strings.TrimSpace(p.Text) == "" {
				return fmt.Errorf("%w: it has an empty text", session.ErrInvalidMessage)
			}
		case llm.Media:
			switch {
			case p.MediaType == "":
				return fmt.Errorf("%w: it has media without a type", session.ErrInvalidMessage)
			case len(p.Data) == 0 && p.URL == "":
				return fmt.Errorf("%w: it has a %s without data or URL", session.ErrInvalidMessage,
					p.MediaType)
			}
		default:
			return fmt.Errorf("%w: a user's message holds text and media, not %T",
				session.ErrInvalidMessage, p)
		}
	}
	if len(m.Parts) == 0 {
		return fmt.Errorf("%w: it is empty", session.ErrInvalidMessage)
	}
	return nil
}

// Continue drives a session in which work remains: after an interruption, a
// failure or a used-up limit, or in place of a worker. It takes the messages that
// wait, too. For a child it carries on the whole tree that the child belongs to:
// events of the root come bare, those of the child in an event.Nested, and the
// End is the root's.
func (rn *Runner) Continue(
	ctx context.Context, sessionID string, actor Actor,
) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		op := Operation{Kind: OpContinue, Actor: actor, Session: sessionID}
		if err := rn.authorize(ctx, op); err != nil {
			yield(nil, err)
			return
		}
		if rn.hasParent(ctx, sessionID) {
			rn.carryOnAbove(ctx, sessionID, yield)
			return
		}
		d, err := rn.newDrive(ctx, sessionID, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		f := &family{rn: rn, ctx: ctx, root: sessionID, yield: yield, queue: true}
		d.queue = true
		f.run(d, (*drive).lift)
	}
}

// Drive is what a worker does, for one session, here and now: it carries on what
// is due in it, and takes the messages that wait. Unlike Continue it leaves a
// run that was stopped, by a failure, a limit or an actor, as it is. So it goes
// well with Send, beside workers: a run that fails in a worker's drive meanwhile
// isn't tried twice. If another drive holds the session, it ends at once, with
// event.FinishElsewhere. For a child it carries on the whole tree, as Continue
// does.
func (rn *Runner) Drive(
	ctx context.Context, sessionID string, actor Actor,
) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		op := Operation{Kind: OpContinue, Actor: actor, Session: sessionID}
		if err := rn.authorize(ctx, op); err != nil {
			yield(nil, err)
			return
		}
		rn.driveDue(ctx, sessionID, true, yield)
	}
}

// driveDue drives a session, or the tree that a child belongs to, as far as work
// is due; with queue it takes the messages that wait.
func (rn *Runner) driveDue(
	ctx context.Context, sessionID string, queue bool, yield func(event.Event, error) bool,
) {
	if rn.hasParent(ctx, sessionID) {
		rn.carryOnAbove(ctx, sessionID, yield)
		return
	}
	d, err := rn.newDrive(ctx, sessionID, nil)
	var busy *session.BusyError
	switch {
	case errors.As(err, &busy):
		yield(event.End{Session: sessionID, Finish: event.FinishElsewhere, Until: busy.Until}, nil)
		return
	case err != nil:
		yield(nil, err)
		return
	}
	d.queue = queue
	(&family{rn: rn, ctx: ctx, root: sessionID, yield: yield, queue: queue}).run(d, nil)
}
