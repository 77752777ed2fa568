package runner

import (
	"errors"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
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
		if said, _, err = tx.Said(in.o.MessageID, in.hash); said || err != nil {
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
	page, err := sy.rn.store.Waiting(sy.waiting, sy.lease.State(), sy.read.asked)
	idle := false
	var parked []event.Parked // calls that wait for their tools
	sy.lease.View(func(st *session.State) { parked, idle = st.Parked(), len(st.Calls) == 0 })
	if err != nil || len(page.Pauses)+len(parked) == 0 {
		return false, err
	}
	if idle && questionIn(page) == nil { // what waits below is handles, which go on
		return false, nil
	}
	var awaits []string
	open := false
	sy.lease.View(func(st *session.State) { awaits, open = st.OnlyAwaits(), len(st.Calls) > 0 })
	if !open && questionIn(page) == nil { // what waits are handles, which go on
		return false, nil
	}
	if len(awaits) > 0 && questionIn(page) == nil {
		return sy.interrupt(awaits)
	}
	if p := questionIn(page); p != nil {
		to := session.PauseRef{Session: p.Session, Pause: p.ID}
		if err := sy.answer(to); !errors.Is(err, errMoved) {
			return true, err
		}
		return sy.turnOver()
	}
	gone, err := sy.rn.lackingAs(sy.waiting, sy.lease.State())
	if err != nil {
		return false, err
	}
	parked = append(parked, gone...)
	err = sy.supersede(&session.PendingError{
		Session: sy.session, Pending: page.Pauses, MorePending: page.More, Parked: parked,
	})
	if errors.Is(err, errMoved) {
		return sy.turnOver()
	}
	return false, err
}

// interrupt ends the awaits that the turn waits for, and takes the message then.
// Their handles go on.
func (sy *saying) interrupt(awaits []string) (answered bool, err error) {
	err = sy.commit(func(tx *session.Tx) error {
		for _, id := range awaits {
			if err := tx.Interrupt(id, sy.user); err != nil && !session.Moved(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return sy.turnOver()
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
