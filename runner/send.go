package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// A user's message from a caller that doesn't drive, such as a handler of HTTP
// requests: it is stored, and workers carry the session on.

// SendOptions configure one Send. Nil means the defaults.
type SendOptions struct {
	// Agent names the agent of a session that the message begins; empty: the
	// runner's first.
	Agent string
	// MessageID makes Send safe to repeat, as that of RunOptions does. Empty: the
	// message gets an id of its own.
	MessageID string
	// While is what the message does while the session is busy, or calls wait.
	While While
	// Hidden: a session that the message begins is none of its user's
	// conversations. Sessions lists it if the filter asks for that, or names its
	// agent.
	Hidden bool
}

// While is what a user's message does while its session is busy, or calls wait.
type While string

// What a message does. One that answers the question which a session waits for
// is that answer in any case.
const (
	// WhileQueue: it waits in order, and is a run of its own.
	WhileQueue While = ""
	// WhileSupersede: it waits in order. Once calls wait, those that wait for
	// people are denied for it, or for those before it in the queue, as
	// RunOptions.Supersede has it.
	WhileSupersede While = "supersede"
	// WhileSteer: it goes into the run that goes on, before the messages that
	// wait for runs of their own. The model reads it after all results of the
	// turn.
	WhileSteer While = "steer"
	// WhileRefuse: Send refuses it, with a *session.PendingError if calls wait
	// and otherwise with a *session.BusyError.
	WhileRefuse While = "refuse"
)

func (w While) check() error {
	switch w {
	case WhileQueue, WhileSupersede, WhileSteer, WhileRefuse:
		return nil
	}
	return fmt.Errorf("%w: what it does while the session is busy is %q; package runner has "+
		"constants for that", session.ErrInvalidMessage, w)
}

// Sent is how a user's message stands that was sent. Its JSON is good for an
// HTTP API.
type Sent struct {
	ID string `json:"id"`
	// Place is where it stands among those that wait, in the order in which they
	// are taken, from 1; 0: it waits no more.
	Place int `json:"place,omitempty"`
	// Taken: it stands in the history, or was the answer to a question.
	Taken bool `json:"taken,omitempty"`
	// Refused is why it could not be taken when its place came: its user may not
	// give the answer that it would have been, say, or it doesn't fit.
	Refused string `json:"refused,omitempty"`
}

// Send stores a user's message, in one commit, and returns. The session, which
// begins with its first, is carried on by a worker, or by Continue. If nothing
// goes on in it, the message is said at once. Otherwise it waits in the
// session's queue, or does what While says.
//
// Queued messages are taken one after the other, each once the run before it is
// over. While calls wait, the first of them is judged as a message of Run is,
// and again whenever what the turn waits for has changed: it answers the one
// question that takes a user's message, or interrupts calls that only await
// handles, or stays. One that is to be an answer and does not fit, or that its
// user may not give, is taken off the queue; Sent and Show tell why. If the
// session waits for such an answer already, Send takes the message for it, and
// returns such a refusal itself.
//
// A halted session goes on with the message, as with one of Run. CancelSession
// ends the run, and leaves what waits until the next Send, Run or Continue. A
// queue holds Options.Queue messages and 16 MiB at most; one more is
// session.ErrQueueFull. One that is sent to a child is session.ErrChild.
func (rn *Runner) Send(
	ctx context.Context, user, sessionID string, m llm.Message, o *SendOptions,
) (Sent, error) {
	var own SendOptions
	if o != nil {
		own = *o
	}
	if err := own.While.check(); err != nil {
		return Sent{}, err
	}
	if own.MessageID == "" {
		own.MessageID = rn.store.NewID("msg")
	}
	op := Operation{Kind: OpSend, Actor: Actor(user), Session: sessionID}
	in, err := rn.input(ctx, op, m.Clone(), &RunOptions{
		Agent: own.Agent, MessageID: own.MessageID, Detached: true,
	})
	if err != nil {
		return Sent{}, err
	}
	s := &sending{rn: rn, ctx: ctx, in: in, session: sessionID, hidden: own.Hidden}
	s.message = session.NewMessage{
		ID: own.MessageID, Hash: in.hash, Entry: in.entry, Steer: own.While == WhileSteer,
		Supersede: own.While == WhileSupersede, Refuse: own.While == WhileRefuse,
		Most: rn.options.Queue,
	}
	return s.send()
}

// sending is one Send. The goroutine of its caller owns it.
type sending struct {
	rn      *Runner
	ctx     context.Context
	in      *input
	session string
	message session.NewMessage
	hidden  bool
	looked  bool
	answers *session.Incoming // a pause of the session itself; nil: none that it waits for

	place  int
	before bool
	full   error // the queue takes no more
	silent bool  // the session waits, and not for a message
}

func (s *sending) send() (Sent, error) {
	judges := make([]judge, 1)
	err := judged(judges, func() error {
		n := &session.New{User: s.in.user, Agent: s.in.agent, Hidden: s.hidden}
		return s.rn.store.SendTo(s.ctx, s.session, n, s.look,
			func(tx *session.Tx) error { return s.commit(tx, &judges[0]) })
	})
	switch {
	case errors.Is(err, session.ErrNotNow):
		return Sent{}, s.notNow()
	case err != nil:
		return Sent{}, err
	case s.full != nil:
		return Sent{}, s.full
	case s.before:
		return s.rn.sent(s.ctx, s.session, s.message.ID)
	}
	return Sent{ID: s.message.ID, Place: s.place, Taken: s.place == 0}, nil
}

// commit takes the message: as the answer that the session waits for, or else
// as one that is said or queued.
func (s *sending) commit(tx *session.Tx, j *judge) (err error) {
	if s.answers != nil && tx.Deleted.IsZero() && tx.Queue == nil {
		s.before, _, err = tx.Said(s.message.ID, s.message.Hash)
		if s.before || err != nil {
			return err
		}
		receipt, err := tx.Answer(s.answers, j.fits(s.ctx, s.rn, tx.Agent))
		if err == nil && refusesAnswer(receipt.Err) {
			err = receipt.Err
		}
		if err != nil {
			return err
		}
		if receipt.Err == nil {
			if tx.Halt != nil {
				tx.LiftFor(tx.Halt)
			}
			tx.Heard(s.message.ID, s.message.Hash, session.PauseRef{})
			s.place = 0
			return nil
		} // or else another answer was faster
	}
	late := s.rn.oneMessage(tx.State)
	s.place, s.before, err = tx.Send(&s.message)
	if late != nil && !s.before && s.isLate(err) {
		return late
	}
	// The halt that it lifts stays lifted: what waits goes on, and makes room.
	if s.full = nil; errors.Is(err, session.ErrQueueFull) {
		s.full, err = err, nil
	}
	return err
}

// look finds out, the first time, whether the message is the answer to a
// question. If it may not be, the message is refused. St is nil for a session
// that doesn't exist.
func (s *sending) look(st *session.State) error {
	first := !s.looked
	s.looked = true
	switch {
	case !first:
		return nil
	case st == nil:
		_, err := s.rn.agent(s.in.agent)
		return err
	case st.User != s.in.user || st.Parent != nil || !st.Deleted.IsZero() || st.Queue != nil:
		return nil // which the commit judges
	}
	if step := s.rn.store.Next(st); step.HasWork() {
		return nil // a driver judges it, once the turn waits
	}
	page, err := s.rn.store.Waiting(s.ctx, st, nil)
	if err != nil {
		return err
	}
	p := questionIn(page)
	if p == nil {
		s.silent = st.Open() > 0
		return nil
	}
	ref := session.PauseRef{Session: p.Session, Pause: p.ID}
	in, err := s.rn.messageAnswer(s.ctx, s.in, ref)
	if err != nil {
		return err
	}
	// In a session below this one a driver gives the answer: that takes two
	// commits.
	if s.message.Answers = true; p.Session == s.session {
		s.answers = in
	}
	return nil
}

// notNow returns why a message can't be said at once.
func (s *sending) notNow() error {
	st, err := s.rn.store.Load(s.ctx, s.session)
	if err != nil {
		return err
	}
	if s.rn.store.Next(st).Kind == session.StepWait {
		refused := &session.PendingError{Session: s.session, Parked: st.Parked()}
		page, err := s.rn.store.Waiting(s.ctx, st, nil)
		if err != nil {
			return err
		}
		refused.Pending, refused.MorePending = page.Pauses, page.More
		if len(refused.Pending)+len(refused.Parked) > 0 {
			return refused
		}
	}
	_, until := s.rn.store.Driven(st)
	return &session.BusyError{Session: s.session, Until: until}
}

// Sent looks up a message that was sent, or of which the Run had an id; without
// one it is session.ErrUnknownMessage.
func (rn *Runner) Sent(
	ctx context.Context, sessionID, messageID string, actor Actor,
) (Sent, error) {
	_, err := rn.visible(ctx, Operation{Kind: OpShow, Actor: actor, Session: sessionID})
	if err != nil {
		return Sent{}, err
	}
	return rn.sent(ctx, sessionID, messageID)
}

func (rn *Runner) sent(ctx context.Context, sessionID, messageID string) (Sent, error) {
	is, err := rn.store.Sent(ctx, sessionID, messageID)
	if err != nil {
		return Sent{}, err
	}
	return Sent{ID: messageID, Place: is.Place, Refused: is.Refused,
		Taken: is.Place == 0 && is.Refused == ""}, nil
}
