package runner

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// saying takes a user's message to the session of a drive. The goroutine that
// drives owns it.
type saying struct {
	*drive
	in *input
}

// say drives the open turn as far as it goes, and then appends the user's
// message, or takes it for an answer. If another commit comes in between, it
// begins again. Taken reports whether the session has the message, from now or
// from before.
func (sy *saying) say() (taken bool, err error) {
	if said, err := sy.said(); said || err != nil {
		return said, err
	}
	halt := sy.halt()
	for {
		if err := sy.lift(); err != nil {
			return false, err
		}
		answered, err := sy.turnOver()
		if answered && err == nil {
			return true, nil
		}
		if errors.Is(err, session.ErrPending) {
			// Perhaps another run with the same message was faster.
			if said, err := sy.said(); said || err != nil {
				return said, err
			}
		}
		if err != nil {
			return false, errors.Join(err, sy.haltAgain(halt))
		}
		said, err := sy.append()
		if err == nil && !said {
			return true, nil
		}
		sy.screen.discard()
		if err != nil && !errors.Is(err, session.ErrStale) {
			return false, err
		}
		// The denials for the message still ride, and would be shown as if they
		// were stored.
		if sy.in.denied {
			_ = sy.lease.Drop(sy.waiting)
			sy.in.denied = false
		}
		if err := sy.startOver(); err != nil || said { // said by another run of it
			return said, err
		}
	}
}

// append appends the message, unless it was said before, and shows what was
// withheld until then.
func (sy *saying) append() (said bool, err error) {
	in := sy.in
	err = sy.commit(func(tx *session.Tx) (err error) {
		if said, err = tx.Said(in.o.MessageID, in.hash); said || err != nil {
			return err
		}
		return tx.Say(in.entry, in.o.MessageID, in.hash, in.o.Detached)
	})
	if err != nil {
		return false, err // said is not good: the transition may go on without its caller
	}
	if said {
		return true, nil
	}
	sy.screen.publish()
	if sy.read.history != nil {
		sy.read.history = append(sy.read.history, in.message)
	}
	return false, nil
}

// turnOver drives the open turn to its end, or takes the message for the answer
// that the turn waits for. If calls still wait, the message is refused.
func (sy *saying) turnOver() (answered bool, err error) {
	if err := sy.driveTurn(); err != nil {
		return false, err
	}
	waiting, err := sy.rn.store.Pauses(sy.waiting, sy.lease.State(), sy.read.asked)
	var parked []event.Parked // calls that wait for their tools
	sy.lease.View(func(st *session.State) { parked = st.Parked() })
	if err != nil || len(waiting)+len(parked) == 0 {
		return false, err
	}
	if answered, err := sy.answerWith(waiting); answered || err != nil {
		return answered, err
	}
	return false, sy.supersede(waiting, parked)
}

// said reports whether the message was taken before. Then the run goes on as it
// is.
func (sy *saying) said() (said bool, err error) {
	if sy.in.o.MessageID == "" {
		return false, nil
	}
	err = sy.lease.Look(sy.waiting, func(tx *session.Tx) (err error) {
		said, err = tx.Said(sy.in.o.MessageID, sy.in.hash)
		return err
	})
	if said && err == nil {
		err = sy.lift()
	}
	return said, err
}

// haltAgain restores the halt that a session had before a refused message, if
// the commits for the open turn have stored that it was lifted. An interruption
// stays lifted if an answer has come since: that would have lifted it as well.
func (sy *saying) haltAgain(halt *session.Halt) error {
	if halt == nil || sy.life.work.Err() != nil || !sy.lease.Taken() {
		return nil
	}
	return sy.commit(func(tx *session.Tx) error {
		if halt.Finish != event.FinishInterrupted || !session.Next(tx.State, tx.Now).Working() {
			tx.Stop(halt.Finish, halt.Why)
			tx.Halt.Actor = halt.Actor
		}
		return nil
	})
}

// answerWith takes the message for an answer, if exactly one pause is open and
// it asks for that.
func (sy *saying) answerWith(waiting []tool.Pause) (bool, error) {
	if len(waiting) != 1 || waiting[0].Await.Mode != tool.ModeMessage {
		return false, nil
	}
	p := waiting[0]
	if err := sy.mayAnswer(&p, AnswerMessage); err != nil {
		return false, err
	}
	for _, part := range sy.in.message.Parts {
		if _, ok := part.(llm.Text); !ok {
			return false, fmt.Errorf("%w: the answer to %s is a text, and it holds %T",
				session.ErrInvalidMessage, p.ID, part)
		}
	}
	text := session.StringBlob(sy.in.message.Text()).JSON()
	answer, err := sy.rn.incoming(Resumption{Pause: p.ID, Payload: text, Actor: Actor(sy.in.user)})
	if err != nil {
		return false, err
	}
	answer.Kind = session.KindMessage
	var receipt session.Receipt
	judges := make([]judge, 1)
	err = judged(judges, func() error {
		return sy.commit(func(tx *session.Tx) (err error) {
			receipt, err = tx.Answer(answer, judges[0].fits(sy.waiting, sy.rn, tx.Agent))
			if err != nil || receipt.Err != nil {
				return errors.Join(err, receipt.Err)
			}
			tx.Heard(sy.in.o.MessageID, sy.in.hash)
			return nil
		})
	})
	return true, err
}

// supersede denies the calls that wait for a person or for a tool that is gone,
// if the caller asked for that and no other call waits.
func (sy *saying) supersede(waiting []tool.Pause, parked []event.Parked) (err error) {
	refused := &session.PendingError{Session: sy.session, Pending: waiting, Parked: parked}
	if !sy.in.o.Supersede {
		return refused
	}
	for _, p := range waiting {
		if !p.Await.Reason.Person() {
			return refused
		}
	}
	// Each denial is the user's own. So the Authorizer is asked about all
	// before anything is denied, and nothing else is denied.
	var denied []string
	for i := range waiting {
		if err := sy.mayAnswer(&waiting[i], AnswerDeny); err != nil {
			return err
		}
		denied = append(denied, waiting[i].ID)
	}
	for _, p := range parked {
		if err := sy.mayAnswer(&tool.Pause{Call: p.Call, Tool: p.Tool}, AnswerDeny); err != nil {
			return err
		}
		denied = append(denied, p.Call)
	}
	return sy.deny(denied)
}

// deny denies the pauses and calls listed, and closes the turn. The results are
// shown once the message is stored: until then another actor may still approve.
func (sy *saying) deny(denied []string) error {
	sy.lease.Keep(true) // after the first denials the head may show nothing but waits
	defer sy.lease.Keep(false)
	if _, err := sy.lease.Secure(sy.waiting); err != nil {
		return err
	}
	sy.screen.stage()
	sy.in.denied = true
	// The last of them are denied in the commit that has the message. Until
	// then the turn is open, and no drive calls the model.
	for left := len(denied); left > 0; left -= session.SupersedeAtOnce {
		commit := sy.commit
		if left <= session.SupersedeAtOnce {
			commit = sy.ride
		}
		err := commit(func(tx *session.Tx) error { return tx.Supersede(sy.in.user, denied) })
		if err != nil {
			sy.screen.discard()
			return err
		}
	}
	if err := sy.driveTurn(); err != nil { // which closes the turn
		sy.screen.discard()
		return err
	}
	if !sy.lease.Rides() { // the run was ended meanwhile: it is stored already
		sy.screen.publish()
	}
	return nil
}

// mayAnswer asks whether the session's user may answer a pause by a message.
func (sy *saying) mayAnswer(p *tool.Pause, answer AnswerKind) error {
	return sy.rn.authorize(sy.life.work, Operation{
		Kind: OpResume, Actor: Actor(sy.user), Session: sy.session, User: sy.user,
		Call: p.Call, Tool: p.Tool, Pause: p.ID, Answer: answer,
	})
}
