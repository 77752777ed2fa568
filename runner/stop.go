package runner

import (
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// How calls end that were cancelled, or whose run was ended.

// settleCancelled settles a call whose body doesn't run.
func (cs *calls) settleCancelled(cancelled *session.Call) error {
	c, opened, shut := *cancelled, cs.read.turn.opened, cs.shut(cancelled)
	return cs.commit(func(tx *session.Tx) error {
		now := asItIs(tx, &c)
		if shut != nil && now.Status == session.Running { // its claim was under way
			return tx.Unclaim(&shut.call)
		}
		by, why := endedBy(tx, now)
		return tx.Settle(c.ID, session.CancelledOutcome(now, by, why, opened))
	})
}

// asItIs returns a copied call as the transition finds it. If the call is gone,
// it returns the copy: settling that is refused.
func asItIs(tx *session.Tx, copied *session.Call) *session.Call {
	if c := tx.Call(copied.ID); c != nil {
		return c
	}
	return copied
}

// endedBy returns the actor that ends a call, and why: by a cancellation of its
// own, or with its run.
func endedBy(tx *session.Tx, c *session.Call) (by, why string) {
	if c.Cancel != nil {
		return c.Cancel.Actor, c.Cancel.Why
	}
	return tx.EndedBy()
}

// stopBodies stops the bodies of calls that have settled, also in a turn that
// is closed, or that are to end. To is the committer of the calling goroutine.
func (cs *calls) stopBodies(to *committer) error {
	if cs.crew.running() == 0 {
		return nil
	}
	open, ending := cs.read.calls()
	for id, m := range cs.crew.underway {
		if m.abandoned {
			continue
		}
		c, cause := &session.Call{ID: id, Status: session.Settled}, errCallCancelled
		if i := slices.IndexFunc(open, func(c session.Call) bool { return c.ID == id }); i >= 0 {
			c = &open[i]
		}
		switch {
		case c.Status == session.Settled || c.Cancel != nil:
		case ending:
			cause = errRunEnded
		default:
			continue
		}
		if err := decided(cs.stopBody(to, c, cause)); err != nil {
			return err
		}
	}
	return nil
}

// stopBody ends a body's context. When its time of grace is over, the call
// settles without it.
func (cs *calls) stopBody(to *committer, c *session.Call, cause error) error {
	until, told := cs.crew.grace(c.ID)
	if !told {
		cs.crew.tellToEnd(c.ID, time.Now().Add(cs.rn.options.CancelGrace), cause)
		return nil
	}
	if time.Now().Before(until) && c.Status != session.Settled {
		return nil
	}
	cs.crew.abandon(c.ID)
	if c.Status == session.Settled {
		return nil
	}
	seen, shut := *c, cs.shut(c) // c is good only until the open calls are copied again
	return to.commit(func(tx *session.Tx) error {
		now := asItIs(tx, &seen)
		by, why := endedBy(tx, now)
		switch {
		case shut != nil && now.Status == session.Running:
			return tx.Unclaim(&shut.call)
		// The body was not entered; only the layers did not stop.
		case now.Effect.NeedsClaim() && now.Status != session.Running:
			return tx.Settle(seen.ID, session.CancelledOutcome(now, by, why, true))
		case shut != nil:
			return tx.Settle(seen.ID, session.CancelledOutcome(now, by, why, shut.turn.opened))
		}
		return tx.Settle(seen.ID, session.GivenUpOutcome(now, by, why))
	})
}
