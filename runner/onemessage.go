package runner

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/session"
)

// Agents whose sessions take one message of their user, such as those that carry
// out a list of steps. What such a session comes to is the result of that
// message: a further one would change it, or be passed over in silence.
//
// A process that doesn't have the agent can't tell. What it takes, the agent's
// model has to say something to.

// oneMessage returns why a session takes no further message, or nil.
func (rn *Runner) oneMessage(st *session.State) error {
	a := rn.agents[st.Agent]
	if a == nil || !a.OneMessage() || st.Messages == 0 {
		return nil
	}
	return fmt.Errorf("%w: session %q takes one, with which it has begun, since its agent %q takes "+
		"no other; begin another session", session.ErrInvalidMessage, st.ID, st.Agent)
}

// isLate reports whether a message to a session that takes no further one is
// refused at once. Sent is the error of taking it. One that is queued for a
// driver may yet be an answer.
func (s *sending) isLate(sent error) bool {
	return sent == nil && (s.place == 0 || s.silent) || s.silent && errors.Is(sent, session.ErrNotNow)
}

// lateFor is oneMessage, of the session that the drive has.
func (sy *saying) lateFor() (err error) {
	sy.lease.View(func(st *session.State) { err = sy.rn.oneMessage(st) })
	return err
}

// lateAtRest is lateFor, where no call is open that the message may answer. So
// the halt of a session is not lifted for one that is refused.
func (sy *saying) lateAtRest() (err error) {
	sy.lease.View(func(st *session.State) {
		if len(st.Calls) == 0 {
			err = sy.rn.oneMessage(st)
		}
	})
	return err
}
