package runner

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// How a drive ends: with its last event, and perhaps with bodies that still
// run, for which drain waits.

// finish ends the drive and returns its last event. What still runs is handed
// to the runner, which keeps the lease for it.
func (d *drive) finish(cause error) (event.End, error) {
	if cause == nil {
		cause = d.crew.fatal
	}
	if d.screen.left {
		d.life.hurry()
	}
	if !session.IsOutage(cause) || d.crew.running() == 0 {
		d.life.end(cause)
	} // else the bodies go on: their caller hasn't left, and drain waits for them
	stop := append(d.interruption(cause), d.crew.unclaims()...)
	last, cancel := d.within(d.rn.options.CloseTimeout)
	defer cancel()
	switch {
	case cause == nil:
	case !refusedMessage(cause) || d.lease.Taken():
		stop = append(stop, d.screen.noteSeen()...)
	default:
		stop = append(stop, d.screen.noteSeenAlone(last.waiting)...)
	}
	defer func() {
		if d.crew.batch.Len() == 0 && !d.lease.Busy() {
			d.close()
		} else {
			go (&drain{drive: d}).run()
		}
	}()
	var err error
	if d.crew.running() > 0 {
		d.lease.Keep(true)
		if len(stop) > 0 {
			err = last.lease.Update(last.waiting, stop...)
		}
	} else {
		told := d.tellQueue(last.waiting, cause)
		err = errors.Join(last.lease.GiveUp(last.waiting, stop...), told)
	}
	if errors.Is(err, session.ErrGoesOn) { // drain waits for it
		err = nil
	}
	var refused *untaken
	if !errors.As(cause, &refused) && isAny(cause, session.ErrFenced, session.ErrBusy) {
		_, until := d.rn.store.Driven(d.lease.State())
		return event.End{Session: d.session, Finish: event.FinishElsewhere, Until: until}, nil
	}
	if err == nil && cause == nil && d.isFollowed() {
		return d.interim(), nil
	}
	end, endErr := d.ending(last.waiting, cause)
	if d.closing.handed && end.Finish == event.FinishElsewhere {
		end.Finish = event.FinishHandedOver
	}
	d.closing.outrun = cause == nil && end.Finish == event.FinishElsewhere && end.Until.IsZero()
	return end, errors.Join(cause, err, endErr)
}

// interruption returns what is to be committed for a drive that ends because
// its caller left, although work may remain.
func (d *drive) interruption(cause error) []session.Transition {
	mayRemain := d.next().HasWork() || d.lease.Busy() // a commit under way may leave work
	if !mayRemain || !d.interrupts(cause) {
		return nil
	}
	return []session.Transition{func(tx *session.Tx) error {
		// Unless it was ended meanwhile.
		if tx.Halt == nil && !tx.Run.Detached && session.Next(tx.State, tx.Now).HasWork() {
			tx.Stop(event.FinishInterrupted, "")
		}
		return nil
	}}
}

// interrupts reports whether the drive stops because its caller left, and not
// because the runner or a worker ends. Then only a caller carries the session
// on.
func (d *drive) interrupts(cause error) bool {
	if d.worker || d.rn.closing.Err() != nil {
		return false
	}
	detached := false
	d.lease.View(func(st *session.State) { detached = st.Run.Detached })
	return !detached && (errors.Is(cause, errLeft) || d.life.caller.Err() != nil)
}

// isFollowed reports whether the session's calls wait, and a family follows what
// is below them.
func (d *drive) isFollowed() bool {
	st := d.lease.State()
	return d.screen.ear != nil && d.lease.Taken() && st.Halt == nil && st.Open() > 0
}

// interim is the last event of such a drive. The family doesn't show it: what
// the session waits for is read when the family ends, and not after each of its
// drives.
func (d *drive) interim() event.End {
	return event.End{Session: d.session, Finish: event.FinishPaused,
		Usage: d.lease.State().Run.Usage}
}

// ending returns the last event of a drive that stopped for cause.
func (d *drive) ending(ctx context.Context, cause error) (end event.End, err error) {
	if d.life.caller.Err() != nil || errors.Is(cause, errLeft) || errors.Is(cause, ErrClosed) {
		cause = errLeft // nothing has failed
	}
	_, err = d.lease.CatchUp(ctx)
	if ctx.Err() == nil && (err != nil || !d.lease.Taken()) {
		// As it is stored; another drive may have it.
		if end, err = d.rn.ending(ctx, d.session, cause); ctx.Err() == nil {
			return end, err
		}
	}
	end, err = d.rn.standing(ctx, d.lease.State(), d.read.asked, cause)
	if ctx.Err() != nil && cause == errLeft { // as far as this drive knows
		err = nil
		if end.Finish == event.FinishFailed {
			end.Finish = event.FinishInterrupted
		}
	}
	return end, err
}

// drop ends a drive that has not begun: nothing is left of it.
func (d *drive) drop() {
	d.life.end(errLeft)
	d.lease.Release()
	d.close()
}

// close lets go of what the drive holds beside its lease.
func (d *drive) close() {
	d.deafen()
	d.crew.batch.Close()
	d.life.end(errLeft)
	d.life.close()
	d.rn.drives.end(d)
}

// lost reports whether err means that the drive has lost its session. Any other
// error is the store's.
func lost(err error) bool {
	return isAny(err, session.ErrFenced, session.ErrDeleted, session.ErrBusy)
}
