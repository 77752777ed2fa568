package runner

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// How a drive ends: with its last event, and with bodies left behind, which the runner waits for.

// finish ends the drive and returns its last event. What still runs is handed to the runner, which keeps the lease for it.
func (d *drive) finish(cause error) (event.End, error) {
	if cause == nil {
		cause = d.outcomes.fatality()
	}
	if d.left {
		d.hurry()
	}
	d.cancel(cause)
	var stop []session.Transition
	if d.interrupts(cause) && (d.next().Left() || d.lease.Busy()) { // which may leave something to do
		stop = append(stop, func(tx *session.Tx) error {
			if tx.Halt == nil && session.Next(tx.State, tx.Now).Left() { // nobody else has ended it meanwhile
				tx.Stop(event.FinishInterrupted, "")
			}
			return nil
		})
	}
	stop = append(stop, d.bodies.unclaims()...)
	ctx, cancel := context.WithTimeout(d.commitCtx(), d.rn.options.CloseTimeout)
	defer cancel()
	switch {
	case cause == nil:
	case !refusedMessage(cause) || d.lease.Taken():
		stop = append(stop, d.noteSeen()...)
	default:
		stop = append(stop, d.noteSeenAlone(ctx)...)
	}
	defer func() {
		if d.batch.Len() == 0 && !d.lease.Busy() {
			d.close()
		} else {
			go d.drain()
		}
	}()
	var err error
	if d.running() > 0 {
		d.lease.Keep(true)
		if len(stop) > 0 {
			err = d.lease.Update(ctx, stop...)
		}
	} else {
		err = d.lease.Leave(ctx, stop...)
	}
	if errors.Is(err, session.ErrGoesOn) { // and drain hears of it
		err = nil
	}
	var refused *untaken
	if !errors.As(cause, &refused) && (errors.Is(cause, session.ErrFenced) || errors.Is(cause, session.ErrBusy)) {
		_, until := d.rn.store.Driven(d.lease.State())
		return event.End{Session: d.session, Finish: event.FinishElsewhere, Until: until}, nil
	}
	end, endErr := d.ending(ctx, cause)
	return end, errors.Join(cause, err, endErr)
}

// drop ends a drive that has not begun: nothing is left of it.
func (d *drive) drop() {
	d.cancel(errLeft)
	d.lease.Release()
	d.close()
}

// close lets go of what the drive holds beside its lease.
func (d *drive) close() {
	d.batch.Close()
	d.unhook()
	d.unhurry()
	d.endAll()
	d.rn.end(d)
}

// interrupts says that the drive stops because its caller left, and not the process or a worker: then only a caller carries the
// session on.
func (d *drive) interrupts(cause error) bool {
	if d.worker || d.rn.closing.Err() != nil {
		return false
	}
	detached := false
	d.lease.View(func(st *session.State) { detached = st.Run.Detached })
	return !detached && (errors.Is(cause, errLeft) || d.caller.Err() != nil)
}

// drain waits for the bodies that still run; each commits its own outcome, unless it is cancelled and does not stop. Then it gives the
// lease up.
func (d *drive) drain() {
	defer d.close()
	changed, stop := d.rn.store.Watch(d.session)
	defer stop()
	for d.running() > 0 {
		d.endInOrder()
		err := d.stopCancelled() // the first time, those that were cancelled before this watched
		if err != nil {
			d.rn.options.Logger.Warn("bodies that run on can't see their session", "session", d.session, "error", err)
		}
		if lost(err) {
			d.lease.Abandon()
			break
		}
		if d.running() > 0 {
			d.drainStep(changed, err != nil)
		}
		if d.running() == 0 {
			d.lease.Keep(false)
			d.leftUndone(d.lease.Leave(d.lasting, append(d.noteSeen(), d.bodies.unclaims()...)...))
		}
	}
	for d.batch.Len() > 0 {
		d.batch.Finished(<-d.batch.Done())
	}
	d.leftUndone(d.lease.Settled(d.lasting))
}

// leftUndone logs what no caller hears of.
func (d *drive) leftUndone(err error) {
	if err != nil && !lost(err) && d.lasting.Err() == nil {
		d.rn.options.Logger.Error("a drive was not ended as it should", "session", d.session, "error", err)
	}
}

// lost reports whether an error says that the drive has lost its session,
// rather than that the store could not be asked.
func lost(err error) bool {
	return errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrDeleted) || errors.Is(err, session.ErrBusy)
}

// drainStep waits until a body has ended, or somebody may have cancelled one, or its time of grace is over.
func (d *drive) drainStep(changed <-chan struct{}, again bool) {
	due, stop := d.timer(session.Step{})
	defer stop()
	if again { // the store could not be asked
		changed, due = nil, time.After(time.Second)
	}
	told, overdue := d.told()
	select {
	case name := <-d.batch.Done():
		d.ended(name)
	case <-changed:
	case <-due:
	case <-told:
	case <-overdue:
	}
}

// told returns a channel that is closed when the runner or the worker ends, or
// if it has, one that gets a value when bodies should have ended by that: after
// half the time that Close waits. Of a drive that was noted as ended in order
// both are nil.
func (d *drive) told() (told <-chan struct{}, overdue <-chan time.Time) {
	switch {
	case d.inOrder:
	case !d.toldAt.IsZero():
		overdue = time.After(time.Until(d.toldAt.Add(d.rn.options.CloseTimeout / 2)))
	case d.worker:
		told = d.stopping.Done()
	default:
		told = d.rn.closing.Done()
	}
	return told, overdue
}

// endInOrder notes, once, that bodies run on although the runner, or the
// worker, has ended and told them. If the process ends next, the session isn't
// blamed.
func (d *drive) endInOrder() {
	switch {
	case d.inOrder || d.rn.closing.Err() == nil && d.stopping.Err() == nil:
	case d.toldAt.IsZero():
		d.toldAt = time.Now()
	case time.Since(d.toldAt) >= d.rn.options.CloseTimeout/2:
		d.inOrder = true
		d.leftUndone(d.lease.Update(d.lasting, func(tx *session.Tx) error { tx.EndInOrder(); return nil }))
	}
}

// stopCancelled stops the bodies whose calls, or run, were cancelled or settled by others.
func (d *drive) stopCancelled() error {
	if _, err := d.lease.Refresh(d.lasting); err != nil {
		return err
	}
	return d.stopBodies(d.lasting)
}

// ended notes that a body has ended.
func (d *drive) ended(name string) {
	d.batch.Finished(name)
	delete(d.abandoned, name)
	delete(d.grace, name)
}

// ending is the last event of a drive that stopped for cause.
func (d *drive) ending(ctx context.Context, cause error) (end event.End, err error) {
	if d.caller.Err() != nil || errors.Is(cause, errLeft) || errors.Is(cause, ErrClosed) {
		cause = errLeft // whatever it was: nothing has failed
	}
	_, err = d.lease.Refresh(ctx)
	if ctx.Err() == nil && (err != nil || !d.lease.Taken()) {
		return d.rn.ending(ctx, d.session, cause) // as it is stored, whoever has it now
	}
	end, err = d.rn.standing(ctx, d.lease.State(), d.asked, cause)
	if ctx.Err() != nil && cause == errLeft { // as far as one knows
		err = nil
		if end.Finish == event.FinishFailed {
			end.Finish = event.FinishInterrupted
		}
	}
	return end, err
}

// ending says how a session stands, as a last event.
func (rn *Runner) ending(ctx context.Context, id string, cause error) (event.End, error) {
	if errors.Is(cause, session.ErrWrongUser) { // how it stands is not for whoever is told
		return event.End{Session: id, Finish: event.FinishFailed}, nil
	}
	st, err := rn.store.Load(ctx, id)
	switch {
	case errors.Is(err, session.ErrUnknownSession) && cause != nil: // it was never begun
		return event.End{Session: id, Finish: event.FinishFailed}, nil
	case err != nil:
		return event.End{Session: id, Finish: event.FinishFailed}, err
	}
	return rn.standing(ctx, st, nil, cause)
}

func (rn *Runner) standing(ctx context.Context, st *session.State, asked []llm.ToolCall, cause error) (event.End, error) {
	end := event.End{Session: st.ID, Finish: event.FinishFailed, Usage: st.Run.Usage}
	var err error
	if end.Pending, err = rn.store.Pauses(ctx, st, asked); err != nil {
		return end, err
	}
	end.Parked = st.Parked()
	step := rn.store.Next(st)
	switch {
	case st.Halt != nil:
		end.Finish, end.Why = st.Halt.Finish, st.Halt.Why
	case cause != nil && cause != errLeft && !refusedMessage(cause):
	case len(end.Pending)+len(end.Parked) > 0:
		end.Finish = event.FinishPaused
	case step.Left():
		end.Finish = event.FinishElsewhere
		switch driven, until := rn.store.Driven(st); {
		case cause == errLeft:
			end.Finish = event.FinishInterrupted
		case !driven && step.Kind == session.StepRetry:
			end.Finish, end.Until, end.Why = event.FinishDelayed, step.Until, st.Retry.Why
		case driven:
			end.Until = until
		}
	default:
		end.Finish, end.Why = st.Finish, st.Why
	}
	return end, nil
}

// refusedMessage says that a message was refused, rather than that the store or a body failed.
func refusedMessage(cause error) bool {
	var u *untaken
	if !errors.As(cause, &u) {
		return false
	}
	for _, e := range []error{
		session.ErrPending, session.ErrMessageConflict, session.ErrInvalidMessage, session.ErrBusy, session.ErrFenced,
		session.ErrInvalidResumePayload, session.ErrResumeConflict, session.ErrExpired, session.ErrSettled, // as the answer that it would have been
		ErrNotAllowed, // as that answer, or as a denial in superseding
	} {
		if errors.Is(u, e) {
			return true
		}
	}
	return false
}
