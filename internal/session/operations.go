package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// The transitions that any caller may make, beside [Tx.Answer], whether or not
// it drives the session.

// Cancel cancels a call: at once, or, while its body may run, as soon as the
// body ends. Given the id of one of the call's pauses, it does so only while
// that pause is open or still to come.
func (tx *Tx) Cancel(callOrPause, by, why string) (Receipt, error) {
	call, number := splitPause(callOrPause)
	rc := Receipt{Call: call, Kind: KindCancel, Actor: by, At: tx.Now}
	if err := tx.notDeleted(call); err != nil {
		return rc, err
	}
	if err := tx.notOver(call, number); err != nil {
		return rc, err
	}
	r, before, err := tx.receipt(call, rc.slot())
	if err != nil || before && !tx.waitsAgain(call) {
		r.Duplicate = true
		return r, err
	}
	c, err := tx.live(call)
	if errors.Is(err, ErrSettled) {
		// The head may be older than the call's record: the call was not asked
		// for yet when it was read. The receipt was stored with the record.
		if r, found, err := tx.receipt(call, rc.slot()); err != nil || found {
			r.Duplicate = true
			return r, err
		}
	}
	if err == nil && number > 0 {
		err = c.notOver(number) // live may have ended a timer's pause just now
	}
	if err != nil {
		return rc, err
	}
	tx.putReceipt(rc)
	tx.goOn()
	switch {
	case c.Parked != nil:
		return rc, tx.settle(c, c.withoutTool(by, why))
	case c.Action == ActionAwait && c.Answer != nil && !before:
		// It is about to tell of ends that have counted, and that no notice tells.
		own := *c.Answer
		own.Interrupted, c.Answer = true, &own
		tx.touch()
		return rc, nil
	case c.Status == Running || tx.driven && c.Status != Pending && !c.Effect.NeedsClaim():
		c.Cancel = &Cancel{Actor: by, Why: why, At: tx.Now}
		return rc, nil
	case c.Status == Pending && c.Pause.Await != nil && c.Pause.Await.Permit == nil && !before &&
		!tx.isHandle():
		tx.goOnFrom(c, &Answer{Actor: by, Interrupted: true})
		return rc, nil
	}
	return rc, tx.settle(c, CancelledOutcome(c, by, why, false))
}

// waitsAgain reports whether a call has awaited handles, was interrupted, and
// has asked for another pause: then it can be cancelled once more, and ends.
func (tx *Tx) waitsAgain(call string) bool {
	c := tx.Call(call)
	return c != nil && c.Status == Pending && c.Answer != nil && c.Answer.Interrupted
}

// notOver refuses an operation on a pause that was answered, or that the call
// can't ask for next. Number zero is no pause.
func (tx *Tx) notOver(call string, number int) error {
	if number == 0 {
		return nil
	}
	if c := tx.Call(call); c != nil && c.Status != Settled {
		return c.notOver(number)
	}
	_, answered, err := tx.receipt(call, Receipt{Pause: number}.slot())
	if err == nil && answered {
		err = tx.settledError(call)
	}
	return err
}

// notOver is Tx.notOver for an open call. A timer's pause leaves no receipt, so
// the count of pauses decides.
func (c *Call) notOver(number int) error {
	id := PauseID(c.ID, number)
	switch {
	case number > c.Pauses+1, number > c.Pauses && c.Status == Pending:
		return fmt.Errorf("%w: %s", ErrUnknownPause, id)
	case number < c.Pauses, number == c.Pauses && c.Status != Pending,
		c.Early != nil && number == c.Early.Pause:
		return fmt.Errorf("%w: pause %s is over", ErrNotPaused, id)
	}
	return nil
}

// goOn lets an interrupted session go on without the caller of its run: another
// caller wants that.
func (tx *Tx) goOn() {
	if h := tx.Halt; h != nil && h.Finish == event.FinishInterrupted {
		tx.Halt = nil
	}
}

// Supersede denies calls that wait for a person or a child, if their open pauses
// are among the ids, and parked calls, if they themselves are; SupersedeAtOnce
// at most. Below, by call, is what was looked at below those that wait for
// children: if any of that has moved on, it denies nothing, with ErrStale.
func (tx *Tx) Supersede(by string, ids []string, below map[string][]Seen) error {
	n := 0
	for i := range tx.Calls {
		c := &tx.Calls[i]
		switch {
		case c.Parked != nil && slices.Contains(ids, c.ID):
		case c.Status == Pending && (c.Pause.Reason.Person() || c.Child != "") &&
			slices.Contains(ids, PauseID(c.ID, c.Pauses)):
		default:
			continue
		}
		if n++; n > SupersedeAtOnce {
			return nil
		}
		if err := tx.unmoved(below[c.ID]); err != nil {
			return err
		}
		if c.overdue(tx.Now) {
			if err := tx.expire(c); err != nil {
				return err
			}
			continue
		}
		o := supersededOutcome(c, by)
		if c.Status == Running {
			o = c.withoutTool(by, "the user sent another message")
		}
		if err := tx.settle(c, o); err != nil {
			return err
		}
	}
	return nil
}

// SupersedeAtOnce is how many calls one commit denies at most.
const SupersedeAtOnce = expireAtOnce

// Extend moves the deadline of an open pause, given by its id or its call's.
// The zero time takes the deadline away.
func (tx *Tx) Extend(pause string, deadline time.Time) error {
	call, number := splitPause(pause)
	deadline = deadline.UTC().Truncate(time.Millisecond)
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Status != Pending || number != 0 && number != c.Pauses:
		return fmt.Errorf("%w: %s is not open", ErrNotPaused, pause)
	case deadline.IsZero() && c.Pause.isRetry():
		return fmt.Errorf("%w: %s is the wait for the next try, which must have a time",
			ErrInvalidDeadline, pause)
	case !deadline.IsZero() && !deadline.After(tx.Now):
		return fmt.Errorf("%w: that of %s, %s, is past",
			ErrInvalidDeadline, pause, deadline.Format(time.RFC3339))
	case deadline.Year() > tool.MaxYear:
		return fmt.Errorf("%w: that of %s is after the year %d; the zero time takes it away",
			ErrInvalidDeadline, pause, tool.MaxYear)
	}
	tx.touch()
	p := *c.Pause
	tx.unremind(c)
	p.Deadline, c.Pause = deadline, &p
	tx.remind(c)
	return nil
}

// Delete leaves nothing but a tombstone. What lies beside the head is deleted
// afterwards, by Store.Delete.
func (tx *Tx) Delete(by string) {
	tx.touch()
	for i := range tx.Calls {
		c := &tx.Calls[i]
		tx.oweUndo(c, c.Pauses, c.Pause, tool.CauseDeleted, by, "")
		tx.givePermitsBack(c)
	}
	tx.unlistAll()
	if tx.Children > 0 {
		tx.owe(Errand{Kind: ErrandDisown})
	}
	var used Run // of a child: its parent is told
	if tx.Parent != nil {
		used = tx.Run
	}
	*tx.State = State{
		Run: used, Version: tx.Version, ID: tx.ID, User: tx.User, Agent: tx.Agent,
		Created: tx.Created, Deleted: tx.Now, Generation: tx.Generation, Epoch: tx.Epoch + 1,
		Parent: tx.Parent, EndEvents: tx.EndEvents, Outbox: tx.Outbox, Missing: tx.Missing,
		Wake: tx.Wake, Watched: tx.Watched, Recovery: tx.Recovery, Bell: tx.Bell, Rung: tx.Rung,
		Notified: tx.Notified, Commits: tx.Commits, Rest: tx.Rest,
	}
}
