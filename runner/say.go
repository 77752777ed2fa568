package runner

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// saying takes a user's message to the session of a drive. The goroutine that
// drives owns it.
type saying struct {
	*drive
	in        *input
	refused   *session.PendingError // for the calls that waited when it last looked
	overtakes int                   // see overtaken
	judged    *session.State        // as it waited when it last looked
	denies    bool                  // it was to supersede then
}

// say drives the open turn as far as it goes, and then appends the user's
// message, or takes it for an answer. If another commit comes in between, it
// begins again. Taken reports whether the session has the message, from now or
// from before.
func (sy *saying) say() (taken bool, err error) {
	if said, err := sy.said(); said || err != nil {
		return said, err
	}
	if err := sy.lateAtRest(); err != nil {
		return false, err
	}
	halt := sy.halt()
	for {
		if err := sy.lift(); err != nil {
			return false, err
		}
		answered, err := sy.turnOver()
		if answered && err == nil {
			return true, sy.unstage()
		}
		if errors.Is(err, session.ErrPending) {
			// Perhaps another run with the same message was faster.
			if said, err := sy.said(); said || err != nil {
				return said, err
			}
		}
		if err != nil {
			sy.screen.discard()
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
		if err != nil {
			if err := sy.overtaken(err); err != nil {
				return false, err
			}
		}
		// The denials for the message still ride, and would be shown as if they
		// were stored.
		if sy.in.denied {
			sy.in.denied = false
			if err := sy.lease.Drop(sy.waiting); err != nil {
				return false, err
			}
		}
		if err := sy.startOver(); err != nil {
			return false, err
		}
		if said { // by another run of it
			if said, err := sy.said(); said || err != nil {
				return said, err
			}
		}
	}
}

// append appends the message, unless it was said before, and shows what was
// withheld until then.
func (sy *saying) append() (said bool, err error) {
	in := sy.in
	err = sy.commit(func(tx *session.Tx) (err error) {
		if in.queued != nil {
			if err := sy.rn.oneMessage(tx.State); err != nil {
				return err
			}
			return tx.SayQueued(in.queued)
		}
		if said, _, err = tx.Said(in.o.MessageID, in.hash); said || err != nil {
			return err
		}
		if err = sy.rn.oneMessage(tx.State); err != nil {
			return err
		}
		if err = tx.Say(in.entry, in.o.MessageID, in.hash, in.o.Detached); err == nil {
			tx.Run.Concurrency = max(in.o.Concurrency, 0)
		}
		return err
	})
	if err != nil {
		return false, err // said is not good: the transition may go on without its caller
	}
	if said {
		return true, nil
	}
	sy.screen.publish()
	sy.read.append(in.message, in.entry)
	sy.read.allStored()
	if in.queued != nil {
		sy.showQueued()
	}
	return false, nil
}

// overtaken counts that another commit came first, and returns nil if the
// message is to be tried again. In the end it is refused.
func (sy *saying) overtaken(err error) error {
	if sy.overtakes++; sy.overtakes <= maxMoves {
		return nil
	}
	if sy.refused != nil {
		err = sy.refused
	}
	return fmt.Errorf("runner: other commits came before the message %d times: %w",
		sy.overtakes, err)
}

// turnOver drives the open turn to its end, or takes the message for the answer
// that the turn waits for. If calls still wait, the message is refused. If
// another commit comes in between, it begins again.
func (sy *saying) turnOver() (answered bool, err error) {
	for {
		answered, err = sy.onceOver()
		if !errors.Is(err, errMoved) {
			return answered, err
		}
		if err := sy.overtaken(err); err != nil {
			return false, err
		}
	}
}

// onceOver is one try of turnOver. ErrMoved ends it if another commit came in
// between.
func (sy *saying) onceOver() (answered bool, err error) {
	sy.refused, sy.denies = nil, false
	if err := sy.driveTurn(); err != nil {
		return false, err
	}
	sy.judged = sy.lease.State()
	page, err := sy.rn.store.Waiting(sy.waiting, sy.judged, sy.read.asked)
	var parked []event.Parked // calls that wait for their tools
	var awaits []string
	open, due := false, false
	sy.lease.View(func(st *session.State) {
		parked, awaits, open, due = st.Parked(), st.OnlyAwaits(), len(st.Calls) > 0, st.Due
	})
	if q := sy.in.queued; err == nil && q != nil && !q.Steering && !open && due && !sy.in.denied {
		return false, errNotItsPlace
	}
	if err != nil || len(page.Pauses)+len(parked) == 0 {
		return false, err
	}
	sy.refused = &session.PendingError{
		Session: sy.session, Pending: page.Pauses, MorePending: page.More, Parked: parked,
	}
	p := questionIn(page)
	switch {
	case p == nil && !open: // what waits are handles, which go on
		return false, nil
	case p != nil:
		err = sy.answer(session.PauseRef{Session: p.Session, Pause: p.ID})
		return true, err
	}
	if err := sy.lateFor(); err != nil {
		return false, err
	}
	if len(awaits) > 0 {
		if err = sy.interrupt(awaits); err == nil {
			err = errMoved // to the end of the turn
		}
		return false, err
	}
	gone, err := sy.rn.lackingAs(sy.waiting, sy.lease.State())
	if err != nil {
		return false, err
	}
	sy.refused.Parked = append(sy.refused.Parked, gone...)
	return false, sy.supersede(sy.refused)
}

// interrupt ends the awaits that the turn waits for, and takes the message then.
// Their handles go on. That rides, and so do the awaits' results: a crash before
// the message is stored leaves them as they were. Until then they are not shown.
func (sy *saying) interrupt(awaits []string) error {
	if !sy.in.denied {
		sy.screen.stage()
		sy.in.denied = true
	}
	again := false
	return sy.ride(func(tx *session.Tx) error {
		// Another commit came first. It may have counted an end that the awaits,
		// entered meanwhile, have not seen.
		if again {
			return fmt.Errorf("%w: the awaits were interrupted before that", session.ErrStale)
		}
		again = true
		for _, id := range awaits {
			if err := tx.Interrupt(id, sy.user); err != nil && !session.Moved(err) {
				return err
			}
		}
		return nil
	})
}

// unstage stores and shows what was to be stored with the message, if that has
// become an answer instead.
func (sy *saying) unstage() error {
	if !sy.in.denied {
		return nil
	}
	if err := sy.flush(); err != nil {
		return err
	}
	sy.screen.publish()
	return nil
}

// said reports whether the message was taken before. Then the run goes on as it
// is.
func (sy *saying) said() (said bool, err error) {
	if sy.in.o.MessageID == "" {
		return false, nil
	}
	var to session.PauseRef
	err = sy.lease.Look(sy.waiting, func(tx *session.Tx) (err error) {
		said, to, err = tx.Said(sy.in.o.MessageID, sy.in.hash)
		return err
	})
	if said && err == nil && to.Pause != "" {
		said, err = sy.passOnAgain(to)
	}
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
