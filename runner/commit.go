package runner

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// committer is the one way in which a drive writes: through its lease, and
// waiting for the store no longer than its context lasts. What the store has
// not done by then goes on without its caller, and the error is
// session.ErrGoesOn.
//
// It is a small value. The loop has one, whose context ends soon after the
// caller has left. Each attempt has another, with the lease that it was started
// under, and with the context of the goroutine that is at work for it. All
// methods may be called from any goroutine. The lease of the loop's changes
// where the drive takes the session anew: then the loop's goroutine writes it,
// under the runner's mutex, since Close reads it.
type committer struct {
	lease   *session.Lease
	waiting context.Context // for as long as the store is waited for
}

// commit stores a transition, with all that rides.
func (c *committer) commit(t session.Transition) error { return c.lease.Update(c.waiting, t) }

// flush is a commit of what rides, and of nothing else.
func (c *committer) flush() error { return c.lease.Update(c.waiting) }

// ride applies a transition that follows from what is stored. The next commit
// stores it.
func (c *committer) ride(t session.Transition) error { return c.lease.Ride(c.waiting, t) }

// refresh takes up what others have committed, and reports whether there was
// anything.
func (c *committer) refresh() (changed bool, err error) { return c.lease.Refresh(c.waiting) }

// catchUp is refresh, where anything may have been committed.
func (c *committer) catchUp() (changed bool, err error) { return c.lease.CatchUp(c.waiting) }

// within returns a committer that waits no longer than d.
func (c *committer) within(d time.Duration) (bounded committer, cancel context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.waiting, d)
	return committer{c.lease, ctx}, cancel
}

// fail ends the run with an error, which Continue or the next message gets
// over.
func (c *committer) fail(cause error) error {
	return errors.Join(cause, c.commit(func(tx *session.Tx) error {
		if tx.Halt == nil { // or else another one has ended it already
			tx.Stop(event.FinishFailed, cause.Error())
		}
		return nil
	}))
}

// halt returns what halts the session.
func (c *committer) halt() (halt *session.Halt) {
	c.lease.View(func(st *session.State) { halt = st.Halt })
	return halt
}

// lift takes an interruption, a failure or a used-up limit off the session: a
// caller carries it on.
func (c *committer) lift() error {
	halt := c.halt()
	if halt == nil {
		return nil
	}
	return c.ride(func(tx *session.Tx) error { tx.Lift(halt); return nil })
}
