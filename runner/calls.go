package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
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
		if err := decided(d.advance(ctx, &open[i], ending)); err != nil {
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
		id, commit := c.ID, d.lease.Ride      // c is good only until the open calls are copied again
		if c.Early.Kind == session.KindFail { // which settles it
			commit = d.lease.Update
		}
		return commit(d.commitCtx(), func(tx *session.Tx) error { return tx.TakeEarly(id) })
	case c.Cancel == nil && !ending && d.gone(c):
		return d.park(c)
	case c.Status == session.Running:
		return d.recover(ctx, c)
	case c.Cancel != nil, ending:
		return d.settleCancelled(c)
	case d.running() < d.core.Concurrency && d.stopping.Err() == nil:
		if err := d.lease.Ready(d.commitCtx()); err != nil {
			return err
		}
		return d.start(ctx, c)
	}
	return nil
}

// settleCancelled settles a call that somebody cancelled, or whose run somebody ended, and whose body doesn't run.
func (d *drive) settleCancelled(cancelled *session.Call) error {
	c, opened, shut := *cancelled, d.turn.opened, d.bodies.shut(cancelled.ID)
	return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		now := asItIs(tx, &c)
		if shut != nil && now.Status == session.Running { // by a claim that was under way
			return tx.Unclaim(&shut.c)
		}
		by, why := endedBy(tx, now)
		return tx.Settle(c.ID, session.CancelledOutcome(now, by, why, opened))
	})
}

// asItIs is a call that was copied as the transition finds it. One that is gone
// stays as it was copied: to settle it is refused.
func asItIs(tx *session.Tx, copied *session.Call) *session.Call {
	if c := tx.Call(copied.ID); c != nil {
		return c
	}
	return copied
}

// endedBy returns who ends a call, and why: by a cancellation of its own, or
// with its run.
func endedBy(tx *session.Tx, c *session.Call) (by, why string) {
	if c.Cancel != nil {
		return c.Cancel.By, c.Cancel.Why
	}
	return tx.EndedBy()
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
		if err := decided(d.stopBody(ctx, c, cause)); err != nil {
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
	seen, shut := *c, d.bodies.shut(c.ID) // c is good only until the open calls are copied again
	return d.lease.Update(ctx, func(tx *session.Tx) error {
		now := asItIs(tx, &seen)
		by, why := endedBy(tx, now)
		switch {
		case shut != nil && now.Status == session.Running:
			return tx.Unclaim(&shut.c)
		case now.Effect.NeedsClaim() && now.Status != session.Running: // only its layers did not stop
			return tx.Settle(seen.ID, session.CancelledOutcome(now, by, why, true))
		case shut != nil:
			return tx.Settle(seen.ID, session.CancelledOutcome(now, by, why, shut.turn.opened))
		}
		return tx.Settle(seen.ID, session.GivenUpOutcome(now, by, why))
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

// readAgain takes up what others have committed. Where the store doesn't
// answer, what runs is waited for all the same, while the lease lasts.
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
func (d *drive) turnOpened(asked []llm.ToolCall, here bool) error {
	turn, err := d.factsOf(d.commitCtx(), here)
	if err == nil {
		d.asked, d.turn = asked, turn
	}
	return err
}

// closeTurn stores the results of the turn, whose calls are all settled. It
// follows from what is stored; so unless it ends the run, it rides with the
// model's next message, and is shown before the model says anything of it.
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
	unseen := d.unheard()
	closing := func(tx *session.Tx) error {
		err := tx.Close(entry, ends)
		if err == nil && len(unseen) > 0 {
			tx.Unseen = &session.Unseen{Message: tx.Messages - 1, Calls: unseen}
		}
		return err
	}
	if ending {
		err = d.lease.Update(d.commitCtx(), closing)
	} else {
		err = d.lease.Ride(d.commitCtx(), closing)
	}
	if err != nil {
		return decided(err)
	}
	d.asked, d.bodies = nil, bodies{}
	d.outcomes.clear()
	d.history = append(d.history, m)
	d.showResults(event.Message{Number: len(d.history) - 1, Message: m.Clone()}, ends)
	return nil
}

// showResults shows the message of a turn's results, once, although the turn
// may be closed again where the commit that it rode with was overtaken.
func (d *drive) showResults(m event.Message, ends []event.Status) {
	if d.closed.number == m.Number && slices.Equal(d.closed.ends, ends) {
		return
	}
	d.closed = closedTurn{m.Number, ends}
	d.emit(m)
}

// closedTurn is the turn whose results were shown last.
type closedTurn struct {
	number int // of the message with them; a turn's is never 0
	ends   []event.Status
}
