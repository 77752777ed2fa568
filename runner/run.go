package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// RunOptions configure one Run. Nil means the defaults.
type RunOptions struct {
	// Agent names the agent of a session that the message begins; empty: the runner's first.
	Agent string
	// MessageID makes Run safe to repeat: a message of the same id and content is not appended again, and of another content
	// is session.ErrMessageConflict. The id is the session's own. Of a message that came before only the last event is shown; Show and
	// Follow have the rest.
	MessageID string
	// Detached: when the caller leaves, a worker carries the run on. Otherwise only Continue or Run does, or an answer that is accepted
	// afterwards. Either way the contexts of bodies end when the caller leaves: where that must not be, hand Run a context that outlives
	// the caller, such as context.WithoutCancel, and don't leave.
	Detached bool
	// Supersede: calls that wait for a person, or for a tool that is gone, are
	// denied in favour of this message. Calls that wait for a machine refuse it
	// all the same. Where more than eight are denied, all but the last of them
	// are before the message is stored, and stay so if it can't be.
	Supersede bool
}

// Run takes a user's message to a session, which begins with its first, and
// drives the session until the model is done or calls wait. Nothing happens
// before the result is ranged over; the last event is an event.End, and an
// error comes before it. A run that was not begun (not allowed, busy, another
// user's, no such agent, closed) yields its error alone.
//
// Answers that were accepted for open calls are settled first. With calls still
// waiting the message is refused with a *session.PendingError, unless exactly
// one waits and takes the user's message for its answer, or
// RunOptions.Supersede. A session that is driven elsewhere is a
// *session.BusyError. Nothing is recorded of a message that is refused, but
// that what it showed was seen, and the run ends as the session stands: paused,
// if calls wait.
//
// Leaving the loop, or the end of ctx, interrupts the run: Run returns at once, and what still runs ends by itself.
func (rn *Runner) Run(ctx context.Context, user, sessionID string, m llm.Message, o *RunOptions) iter.Seq2[event.Event, error] {
	// Both are the caller's, who may go on with them before the result is
	// ranged over.
	m = m.Clone()
	var own RunOptions
	if o != nil {
		own = *o
	}
	return func(yield func(event.Event, error) bool) {
		in, err := rn.input(ctx, user, sessionID, m, &own)
		if err != nil {
			yield(nil, err)
			return
		}
		d, err := rn.newDrive(ctx, sessionID, &session.New{User: user, Agent: in.agent})
		if err != nil {
			yield(nil, err)
			return
		}
		d.events(func() error {
			taken, err := d.say(in)
			if err != nil && !taken {
				err = &untaken{err}
				if in.denied || !refusedMessage(err) && !d.interrupts(err) {
					_ = d.lease.Drop(d.commitCtx()) // before anything else is committed: calls that were denied for it, a halt that was lifted for it
				}
			}
			return err
		})(yield)
	}
}

// input is a user's message on its way in.
type input struct {
	user, agent string
	message     llm.Message
	entry       *session.Entry
	hash        string
	o           *RunOptions
	denied      bool // calls were denied for it
}

// untaken is why a message was not taken. The session, which somebody else may have, stands as it did.
type untaken struct{ error }

func (u *untaken) Unwrap() error { return u.error }

// input checks a message before anything is touched.
func (rn *Runner) input(ctx context.Context, user, id string, m llm.Message, o *RunOptions) (*input, error) {
	if err := rn.authorize(ctx, Operation{Kind: OpRun, Actor: Actor(user), Session: id}); err != nil {
		return nil, err
	}
	if err := errors.Join(session.CheckID("user", user), session.CheckID("session id", id)); err != nil {
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
	if _, err := rn.agent(in.agent); err != nil {
		return nil, err
	}
	in.message = m.Clean()
	if err := sayable(in.message); err != nil {
		return nil, err
	}
	var err error
	if in.entry, err = session.NewEntry(in.message); err != nil {
		return nil, err
	}
	in.hash = in.entry.Hash()
	return in, nil
}

// sayable says what is wrong with a user's message.
func sayable(m llm.Message) error {
	if m.Role != llm.RoleUser {
		return fmt.Errorf("%w: its role is %q, and a user's is %q", session.ErrInvalidMessage, m.Role, llm.RoleUser)
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
				return fmt.Errorf("%w: it has a %s without data or URL", session.ErrInvalidMessage, p.MediaType)
			}
		default:
			return fmt.Errorf("%w: a user's message holds text and media, not %T", session.ErrInvalidMessage, p)
		}
	}
	if len(m.Parts) == 0 {
		return fmt.Errorf("%w: it is empty", session.ErrInvalidMessage)
	}
	return nil
}

// say settles what was accepted before, and then appends the user's message, or takes it for an answer. Where somebody else's
// commit comes in between, it begins again. Taken says that the session has the message, since now or before.
func (d *drive) say(in *input) (taken bool, err error) {
	if said, err := d.said(in); said || err != nil {
		return said, err
	}
	halt := d.halt()
	for {
		if err := d.lift(); err != nil {
			return false, err
		}
		answered, err := d.settled(in)
		if answered && err == nil {
			return true, nil
		}
		if errors.Is(err, session.ErrPending) { // perhaps because of the message itself, which another run of it brought
			if said, err := d.said(in); said || err != nil {
				return said, err
			}
		}
		if err != nil {
			return false, errors.Join(err, d.haltAgain(halt))
		}
		said := false
		err = d.lease.Update(d.commitCtx(), func(tx *session.Tx) (err error) {
			if said, err = tx.Said(in.o.MessageID, in.hash); said || err != nil {
				return err
			}
			return tx.Say(in.entry, in.o.MessageID, in.hash, in.o.Detached)
		})
		if errors.Is(err, session.ErrGoesOn) {
			return false, err
		}
		if err != nil || said {
			d.dropHeld()
		}
		d.before = nil
		if err == nil && !said {
			break
		}
		if err != nil && !errors.Is(err, session.ErrStale) {
			return false, err
		}
		if in.denied { // what was denied for it rides still, and would be shown as if it were stored
			d.lease.Drop(d.commitCtx())
			in.denied = false
		}
		if err := d.startOver(); err != nil || said { // said by another run of it
			return said, err
		}
	}
	d.flushHeld()
	if d.history != nil {
		d.history = append(d.history, in.message)
	}
	return true, nil
}

// settled closes the open turn, or finds that the message is an answer that was waited for. With calls that go on waiting it is
// refused.
func (d *drive) settled(in *input) (answered bool, err error) {
	if err := d.settle(); err != nil {
		return false, err
	}
	waiting, err := d.pending()
	parked := d.parked()
	if err != nil || len(waiting)+len(parked) == 0 {
		return false, err
	}
	if answered, err := d.answerWith(waiting, in); answered || err != nil {
		return answered, err
	}
	return false, d.supersede(waiting, parked, in)
}

// said says whether the message was taken before. Then the run goes on as it is.
func (d *drive) said(in *input) (said bool, err error) {
	if in.o.MessageID == "" {
		return false, nil
	}
	err = d.lease.Look(d.commitCtx(), func(tx *session.Tx) (err error) {
		said, err = tx.Said(in.o.MessageID, in.hash)
		return err
	})
	if said && err == nil {
		err = d.lift()
	}
	return said, err
}

// halt is what halts the session.
func (d *drive) halt() (halt *session.Halt) {
	d.lease.View(func(st *session.State) { halt = st.Halt })
	return halt
}

// haltAgain halts a session as it was before a message that was refused, where settling what was accepted has stored that it was lifted.
// An interruption stays lifted if an answer has come since, which would have lifted it.
func (d *drive) haltAgain(halt *session.Halt) error {
	if halt == nil || d.ctx.Err() != nil || !d.lease.Taken() {
		return nil
	}
	return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		if halt.Finish != event.FinishInterrupted || !session.Next(tx.State, tx.Now).Working() {
			tx.Stop(halt.Finish, halt.Why)
			tx.Halt.By = halt.By
		}
		return nil
	})
}

// lift takes an interruption, a failure or a used-up limit off the session: a caller carries it on.
func (d *drive) lift() error {
	halt := d.halt()
	if halt == nil {
		return nil
	}
	return d.lease.Ride(d.commitCtx(), func(tx *session.Tx) error { tx.Lift(halt); return nil })
}

func (d *drive) pending() ([]tool.Pause, error) {
	return d.rn.store.Pauses(d.commitCtx(), d.lease.State(), d.asked)
}

// answerWith takes the message for an answer, if exactly one pause is open and it asks for that.
func (d *drive) answerWith(waiting []tool.Pause, in *input) (bool, error) {
	if len(waiting) != 1 || waiting[0].Await.Mode != tool.ModeMessage {
		return false, nil
	}
	p := waiting[0]
	if err := d.mayAnswer(&p, AnswerMessage); err != nil {
		return false, err
	}
	for _, part := range in.message.Parts {
		if _, ok := part.(llm.Text); !ok {
			return false, fmt.Errorf("%w: the answer to %s is a text, and it holds %T", session.ErrInvalidMessage, p.ID, part)
		}
	}
	text := session.StringBlob(in.message.Text()).JSON()
	reply, err := d.rn.reply(Resumption{Pause: p.ID, Payload: text, Actor: Actor(in.user)})
	if err != nil {
		return false, err
	}
	reply.Kind = session.KindMessage
	var receipt session.Receipt
	judges := make([]judge, 1)
	err = judged(judges, func() error {
		return d.lease.Update(d.commitCtx(), func(tx *session.Tx) (err error) {
			if receipt, err = tx.Answer(reply, judges[0].fits(d.commitCtx(), d.rn, tx.Agent)); err != nil || receipt.Err != nil {
				return errors.Join(err, receipt.Err)
			}
			tx.Heard(in.o.MessageID, in.hash)
			return nil
		})
	})
	return true, err
}

// supersede denies what waits for a person or for a tool that is gone, if the
// caller asked for that and nothing else waits.
func (d *drive) supersede(waiting []tool.Pause, parked []event.Parked, in *input) (err error) {
	refused := &session.PendingError{Session: d.session, Pending: waiting, Parked: parked}
	if !in.o.Supersede {
		return refused
	}
	for _, p := range waiting {
		if !session.ForPerson(p.Await.Reason) {
			return refused
		}
	}
	// Each denial is the user's own: all are asked for before anything is
	// denied, and what isn't asked for is not denied.
	var denied []string
	for i := range waiting {
		if err := d.mayAnswer(&waiting[i], AnswerDeny); err != nil {
			return err
		}
		denied = append(denied, waiting[i].ID)
	}
	for _, p := range parked {
		if err := d.mayAnswer(&tool.Pause{Call: p.Call, Tool: p.Tool}, AnswerDeny); err != nil {
			return err
		}
		denied = append(denied, p.Call)
	}
	d.lease.Keep(true) // though what is denied first leaves nothing to do but wait
	defer d.lease.Keep(false)
	if _, err := d.lease.Secure(d.commitCtx()); err != nil {
		return err
	}
	// What that leads to is shown once the message is stored: until then somebody may still approve.
	outer := d.emit
	d.before, in.denied = maps.Clone(d.shown), true
	defer func() {
		d.emit = outer
		switch {
		case err != nil:
			d.dropHeld()
			d.before = nil
		case !d.lease.Rides(): // somebody has ended the run meanwhile: it is stored already
			d.before = nil
			d.flushHeld()
		}
	}()
	d.emit = func(ev event.Event) bool {
		d.held = append(d.held, ev)
		return !d.left
	}
	// The last of them are denied in the commit that has the message: until then the turn is open, and the model is not called.
	for left := len(denied); left > 0; left -= session.SupersedeAtOnce {
		commit := d.lease.Update
		if left <= session.SupersedeAtOnce {
			commit = d.lease.Ride
		}
		if err := commit(d.commitCtx(), func(tx *session.Tx) error { return tx.Supersede(in.user, denied) }); err != nil {
			return err
		}
	}
	return d.settle() // which closes the turn
}

// mayAnswer asks whether the session's user may answer a pause by a message.
func (d *drive) mayAnswer(p *tool.Pause, answer AnswerKind) error {
	return d.rn.authorize(d.ctx, Operation{
		Kind: OpResume, Actor: Actor(d.user), Session: d.session, User: d.user, Call: p.Call, Tool: p.Tool, Pause: p.ID, Answer: answer,
	})
}

// Continue drives a session that has work left: after an interruption, a failure or a used-up limit, or in place of a worker.
func (rn *Runner) Continue(ctx context.Context, sessionID string, actor Actor) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if err := rn.authorize(ctx, Operation{Kind: OpContinue, Actor: actor, Session: sessionID}); err != nil {
			yield(nil, err)
			return
		}
		d, err := rn.newDrive(ctx, sessionID, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		d.events(d.lift)(yield)
	}
}
