package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
)

// Why a body's context ends, other than that its caller left.
var (
	errCallCancelled = errors.New("the call was cancelled")
	errRunEnded      = errors.New("the run was ended")
)

// calls starts what calls of the open turn may start, and then waits until something happens: a body ends, somebody else
// changes the session, a deadline passes.
func (d *drive) calls(ctx context.Context, step session.Step, changed <-chan struct{}) error {
	if err := d.loadTurn(); err != nil {
		return err
	}
	open, ending := d.openCalls()
	for i := range open {
		if err := d.advance(ctx, &open[i], ending); err != nil {
			return err
		}
	}
	if d.running() == 0 {
		return nil
	}
	return d.wait(step, changed)
}

// advance does what can be done for one call without waiting.
func (d *drive) advance(ctx context.Context, c *session.Call, ending bool) error {
	switch {
	case d.batch.Running(c.ID): // see stopBodies
		return nil
	case c.Status == session.Settled, c.Status == session.Pending && !ending:
		return nil
	case c.Early != nil:
		id, commit := c.ID, d.lease.Ride // c is good only until the open calls are copied again
		if c.Early.Kind == session.KindFail {
			commit = d.lease.Update
		}
		return commit(d.commitCtx(), func(tx *session.Tx) error { return tx.TakeEarly(id) })
	case c.Status == session.Running:
		return d.recover(ctx, c)
	case c.Cancel != nil, ending:
		return d.settleCancelled(c)
	case d.running() < d.agent.Concurrency() && d.stopping.Err() == nil:
		if err := d.lease.Ready(d.commitCtx()); err != nil {
			return err
		}
		return d.start(ctx, c)
	}
	return nil
}

// settleCancelled settles a call that somebody cancelled, or whose run somebody ended, and whose body doesn't run.
func (d *drive) settleCancelled(cancelled *session.Call) error {
	c, opened := *cancelled, d.turn.opened
	return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		by, why := tx.EndedBy()
		if c.Cancel != nil {
			by, why = c.Cancel.By, c.Cancel.Why
		}
		return tx.Settle(c.ID, session.CancelledOutcome(&c, by, why, opened))
	})
}

// stopBodies stops those that nobody waits for any more: of calls that are settled, be it in a turn that is closed, or are to be.
func (d *drive) stopBodies(ctx context.Context) error {
	if d.running() == 0 {
		return nil
	}
	open, ending := d.openCalls()
	for _, id := range d.batch.Names() {
		if d.abandoned[id] {
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
		if err := d.stopBody(ctx, c, cause); err != nil {
			return err
		}
	}
	return nil
}

// stopBody ends a body's context. When its time of grace is over, the call settles without it.
func (d *drive) stopBody(ctx context.Context, c *session.Call, cause error) error {
	until, asked := d.grace[c.ID]
	if !asked {
		d.batch.Cancel(c.ID, cause)
		d.grace[c.ID] = time.Now().Add(d.rn.options.CancelGrace)
		return nil
	}
	if time.Now().Before(until) && c.Status != session.Settled {
		return nil
	}
	d.abandoned[c.ID] = true
	delete(d.grace, c.ID)
	if c.Status == session.Settled {
		return nil
	}
	begun := *c                           // which is good only until the open calls are copied again
	begun.Attempt = max(begun.Attempt, 1) // a body without a claim doesn't show in the head
	return d.lease.Update(ctx, func(tx *session.Tx) error {
		by, why := tx.EndedBy()
		if begun.Cancel != nil {
			by, why = begun.Cancel.By, begun.Cancel.Why
		}
		if now := tx.Call(begun.ID); now != nil && now.Effect.NeedsClaim() && now.Status != session.Running {
			return tx.Settle(begun.ID, session.CancelledOutcome(now, by, why, true)) // it was not claimed: only its layers did not stop
		}
		return tx.Settle(begun.ID, session.GivenUpOutcome(&begun, by, why))
	})
}

// wait returns when something has happened.
func (d *drive) wait(step session.Step, changed <-chan struct{}) error {
	due, stop := d.timer(step)
	defer stop()
	stopping := d.stopping.Done()
	for {
		select {
		case b := <-d.batch.Handed():
			b.Rest()
			d.ended(b.Name)
			return d.outcomes.failure()
		case id := <-d.batch.Done():
			d.ended(id)
			return d.outcomes.failure()
		case <-changed:
			return d.readAgain()
		case <-due:
			return d.readAgain()
		case p := <-d.progress:
			if !d.emit(p) {
				return errLeft
			}
		case <-stopping:
			stopping = nil // what runs is waited for
			if d.running() == 0 {
				return nil
			}
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		}
	}
}

// readAgain takes up what others have committed. Where the store doesn't answer, what runs is waited for all the same, while the lease
// lasts.
func (d *drive) readAgain() error {
	_, err := d.lease.Refresh(d.commitCtx())
	if errors.Is(err, session.ErrNoAnswer) {
		err = nil
	}
	return err
}

// timer fires when there may be something to do although nobody says so: at the next deadline of a pause; when a body's time of grace
// is over; and, where leases are stored, now and then, since other processes may have changed the session.
func (d *drive) timer(step session.Step) (c <-chan time.Time, stop func()) {
	every := d.lease.RenewEvery()
	if step.Until.IsZero() && len(d.grace) == 0 && every == 0 {
		return nil, func() {}
	}
	after := time.Duration(1<<63 - 1)
	if every > 0 {
		after = every
	}
	if !step.Until.IsZero() {
		after = min(after, step.Until.Sub(d.rn.store.Now()))
	}
	for _, until := range d.grace {
		after = min(after, time.Until(until))
	}
	t := time.NewTimer(max(after, 0))
	return t.C, func() { t.Stop() }
}

// openCalls copies the calls of the open turn. The copy is good until it is made again.
func (d *drive) openCalls() (calls []session.Call, ending bool) {
	d.lease.View(func(st *session.State) {
		d.copied = append(d.copied[:0], st.Calls...)
		ending = st.Ending != nil
	})
	return d.copied, ending
}

// loadTurn loads what bodies need of the open turn, if the turn was not opened by this drive.
func (d *drive) loadTurn() error {
	if d.asked != nil {
		return nil
	}
	asked, err := d.rn.store.Asked(d.commitCtx(), d.lease.State())
	if err != nil {
		return err
	}
	return d.turnOpened(asked, false)
}

// turnOpened notes what bodies need of the open turn.
func (d *drive) turnOpened(asked []llm.ToolCall, here bool) (err error) {
	d.asked = asked
	d.lease.View(func(st *session.State) {
		d.turn = &turnFacts{number: st.Turn, asked: st.Asked, key: st.TokenKey, opened: here}
	})
	if d.turn.key != 0 {
		d.turn.secret, err = d.rn.tokens.key(d.commitCtx(), d.turn.key)
	}
	return err
}

// closeTurn stores the results of the turn, whose calls are all settled. It follows from what is stored; so unless it ends the
// run, it rides with the model's next message.
func (d *drive) closeTurn() error {
	if err := d.show(); err != nil { // what has settled since the last look: the head is about to forget it
		return err
	}
	if err := d.loadHistory(); err != nil { // now, while it is all stored
		return err
	}
	if err := d.loadTurn(); err != nil {
		return err
	}
	m, ends, err := d.results()
	if err != nil {
		return err
	}
	entry, err := session.NewEntry(m)
	if err != nil {
		return err
	}
	_, ending := d.openCalls()
	closing := func(tx *session.Tx) error { return tx.Close(entry, ends) }
	if ending {
		err = d.lease.Update(d.commitCtx(), closing)
	} else {
		err = d.lease.Ride(d.commitCtx(), closing)
	}
	if err != nil {
		return err
	}
	d.asked = nil
	d.outcomes.clear()
	d.history = append(d.history, m)
	d.held = append(d.held, event.Message{Number: len(d.history) - 1, Message: m})
	if ending {
		d.flushHeld()
	}
	return nil
}
