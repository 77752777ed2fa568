package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A user's message as an answer: to a pause of the session, or of one below it.

// questionIn returns the pause that the user's next message answers: the only
// one of a person in the tree, if it asks for that. Otherwise it returns nil.
func questionIn(page session.Page) (question *tool.Pause) {
	if page.More {
		return nil
	}
	for i := range page.Pauses {
		p := &page.Pauses[i]
		if !p.Await.Reason.Person() {
			continue
		}
		if question != nil || p.Await.Mode != tool.ModeMessage {
			return nil
		}
		question = p
	}
	return question
}

// answer takes the message for the answer to a pause.
func (sy *saying) answer(p session.PauseRef) error {
	if p.Session != sy.session {
		return sy.passOn(p)
	}
	in, err := sy.incoming(p)
	if err != nil {
		return err
	}
	judges := make([]judge, 1)
	return judged(judges, func() error {
		return sy.commit(func(tx *session.Tx) error {
			if q := sy.in.queued; q != nil {
				if err := tx.Take(q); err != nil {
					return err
				}
			}
			receipt, err := tx.Answer(in, judges[0].fits(sy.waiting, sy.rn, tx.Agent))
			if err != nil || receipt.Err != nil {
				return errors.Join(err, receipt.Err)
			}
			tx.Heard(sy.in.o.MessageID, sy.in.hash, session.PauseRef{})
			return nil
		})
	})
}

// incoming returns the message as an answer to the pause, if the user may give
// it.
func (sy *saying) incoming(p session.PauseRef) (*session.Incoming, error) {
	return sy.rn.messageAnswer(sy.life.work, sy.in, p)
}

// messageAnswer returns a message as an answer to a pause, if the user may give
// it.
func (rn *Runner) messageAnswer(
	ctx context.Context, m *input, p session.PauseRef,
) (*session.Incoming, error) {
	op := about(OpResume, p.Session, p.Pause, Actor(m.user))
	op.Answer = AnswerMessage
	if err := rn.authorize(ctx, op); err != nil {
		return nil, err
	}
	for _, part := range m.message.Parts {
		if _, ok := part.(llm.Text); !ok {
			return nil, fmt.Errorf("%w: the answer to %s is a text, and it holds %T",
				session.ErrInvalidMessage, p.Pause, part)
		}
	}
	text := session.StringBlob(m.message.Text()).JSON()
	in, err := rn.incoming(Resumption{Pause: p.Pause, Payload: text, Actor: Actor(m.user)})
	if err != nil {
		return nil, err
	}
	in.Kind = session.KindMessage
	return in, nil
}

// passOn takes the message for the answer to a pause below the session. The
// session notes first where the message goes, so that a repeat of it finds out
// whether it has arrived, and is neither lost nor taken for another message.
// That it has arrived is noted with the session's next commit.
func (sy *saying) passOn(to session.PauseRef) error {
	in, err := sy.incoming(to)
	if err != nil {
		return err
	}
	if err := sy.heard(sy.commit, to); err != nil {
		return err
	}
	receipt, err := sy.deliver(to, in)
	if err != nil {
		return err // it may have arrived
	}
	if receipt.Err == nil {
		return sy.heard(sy.ride, session.PauseRef{})
	}
	refused := receipt.Err
	if !errors.Is(refused, session.ErrInvalidResumePayload) {
		refused = errMoved
	}
	return errors.Join(refused, sy.unheard())
}

// errMoved: a pause that a message was to answer, or to deny, was over by then.
var errMoved = errors.New("the pause is over")

// passOnAgain delivers a message that was on its way to a pause when its run
// ended. It reports whether the pause has it. If the pause was ended by
// something else first, the message is as good as new.
func (sy *saying) passOnAgain(to session.PauseRef) (taken bool, err error) {
	in, err := sy.incoming(to)
	if err != nil {
		return false, err
	}
	receipt, err := sy.deliver(to, in)
	switch {
	case isAny(err, session.ErrUnknownSession, session.ErrDeleted),
		isAny(receipt.Err, session.ErrUnknownCall, session.ErrDeleted):
		// It is so long ago that nothing tells. Better not at all than twice.
	case err != nil:
		return false, err
	case receipt.Err != nil:
		return false, sy.unheard()
	}
	return true, sy.heard(sy.ride, session.PauseRef{})
}

// deliver answers a pause of another session.
func (sy *saying) deliver(
	to session.PauseRef, in *session.Incoming,
) (receipt session.Receipt, err error) {
	judges := make([]judge, 1)
	err = judged(judges, func() error {
		return sy.rn.store.Update(sy.waiting, to.Session, func(tx *session.Tx) (err error) {
			receipt, err = tx.Answer(in, judges[0].fits(sy.waiting, sy.rn, tx.Agent))
			return err
		})
	})
	return receipt, err
}

// heard notes that the message was taken for an answer, and where it is on its
// way to.
func (sy *saying) heard(store func(session.Transition) error, to session.PauseRef) error {
	if sy.in.o.MessageID == "" {
		return nil
	}
	return store(func(tx *session.Tx) error {
		if q := sy.in.queued; q != nil {
			if to.Pause != "" {
				return tx.Bind(q, to)
			}
			if err := tx.Take(q); err != nil {
				return err
			}
		}
		tx.Heard(sy.in.o.MessageID, sy.in.hash, to)
		return nil
	})
}

// unheard forgets that the message was on its way.
func (sy *saying) unheard() error {
	if sy.in.o.MessageID == "" {
		return nil
	}
	return sy.commit(func(tx *session.Tx) error {
		if q := sy.in.queued; q != nil {
			return tx.Bind(q, session.PauseRef{})
		}
		tx.Unheard(sy.in.o.MessageID)
		return nil
	})
}

// mayDeny asks whether the session's user may deny a pause, or a parked call,
// which is then in the place of the pause.
func (sy *saying) mayDeny(p session.PauseRef) error {
	op := about(OpResume, p.Session, p.Pause, Actor(sy.user))
	op.Answer = AnswerDeny
	return sy.rn.authorize(sy.life.work, op)
}
