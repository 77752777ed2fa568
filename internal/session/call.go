package session

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// The transitions of one call that its driver makes. Each is refused with an
// error, and leaves the call as it was, where the table in transitions.go
// doesn't have it.

// Claim stores that the call's body is about to be entered, by this drive.
func (tx *Tx) Claim(call string) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if c.Cancel != nil || tx.Ending != nil {
		return fmt.Errorf("%w: call %s", ErrCancelled, call)
	}
	if err := c.move(Running); err != nil {
		return err
	}
	c.Attempt++
	c.Epoch = tx.Epoch
	c.Effect = tool.Once // when the call was asked for, its tool may have declared another
	tx.touch()
	return nil
}

// Unclaim takes back this drive's claim of a call whose body was not entered.
// The call is what it was before. If it was cancelled meanwhile, or its run
// ended, it settles as one that was not run. Without such a claim the error is
// ErrStale.
func (tx *Tx) Unclaim(was *Call) error {
	c := tx.Call(was.ID)
	if c == nil || c.Status != Running || c.Epoch != tx.Epoch || c.Attempt != was.Attempt+1 {
		return fmt.Errorf("%w: call %s is not claimed by drive %d", ErrStale, was.ID, tx.Epoch)
	}
	c.Attempt, c.Epoch, c.Effect = was.Attempt, was.Epoch, was.Effect
	if c.Cancel != nil || tx.Ending != nil {
		by, why := tx.EndedBy()
		if c.Cancel != nil {
			by, why = c.Cancel.Actor, c.Cancel.Why
		}
		if err := c.move(was.Status); err != nil { // no body was shown what came for it
			return err
		}
		return tx.settle(c, CancelledOutcome(was, by, why, true))
	}
	if c.Early != nil { // no body is left that could write the pause it is for
		c.unshowMail(was)
		return tx.TakeEarly(c.ID)
	}
	tx.touch()
	return c.move(was.Status)
}

// setFate writes into a receipt what became of its operation.
func (tx *Tx) setFate(call string, pause int, fate Fate) error {
	r := Receipt{Call: call, Pause: pause}
	if pause == 0 {
		r.Kind = KindCancel
	}
	r, found, err := tx.receipt(call, r.slot())
	if err != nil || !found {
		return err
	}
	r.Fate = fate
	tx.putReceipt(r)
	return nil
}

// refuseEarly writes into the receipt of an early answer that its pause has
// refused it, and who signed it: what another one signs may still be the answer.
func (tx *Tx) refuseEarly(c *Call, early *Answer) error {
	r := Receipt{Call: c.ID, Pause: early.Pause}
	r, found, err := tx.receipt(c.ID, r.slot())
	if err != nil || !found {
		return err
	}
	tx.delete(receiptKey(tx.ID, c.ID, r.slot()))
	r.Fate, r.Sender = Refused, early.Sender
	tx.putReceipt(r)
	return nil
}

// TakeEarly makes a kept answer the call's answer, where no body is left that
// could write the pause it is for: a crash came between.
func (tx *Tx) TakeEarly(call string) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if c.Early == nil {
		return fmt.Errorf("%w: call %s has no early answer", ErrStale, call)
	}
	a := *c.Early // readers of the head see that one: it must not change
	c.Early = nil
	c.Pauses = a.Pause // the pause counts, although it was never written
	if a.Kind == KindFail {
		c.Answer = nil // a body may have been entered with it, and been shown its events
		return tx.settle(c, failed(&a))
	}
	a.Mode = tool.ModeOutput
	c.Answer, c.Status = &a, Answered
	tx.touch()
	return nil
}

// Lose settles a call whose body a crash has cut off: with the answer that was
// kept for it, also if that came while the driver thought about it, and
// otherwise with o.
func (tx *Tx) Lose(call string, o *Outcome) error {
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Early != nil:
		return tx.TakeEarly(call)
	}
	return tx.settle(c, o)
}

// Expire ends pauses whose deadline has passed. A timer's deadline is its
// answer; at a layer it lets the call through. Where the pause has it so, the
// deadline has the tool entered again. Any other call settles as expired.
// Expire ends at most expireAtOnce, so that a commit stays within its
// bounds; Next asks for the rest.
func (tx *Tx) Expire() error {
	tx.lingeredEnough()
	for i, n := 0, 0; i < len(tx.Calls) && n < expireAtOnce; i++ {
		if c := &tx.Calls[i]; c.overdue(tx.Now) {
			n++
			if err := tx.expire(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// With as many answers as one Resume takes, and all that each of both may
// write, a commit stays below kvstore.MaxOperations.
const expireAtOnce = 8

func (c *Call) overdue(now time.Time) bool {
	d := c.deadline()
	return !d.IsZero() && !d.After(now)
}

// deadline is until when a call waits; zero: it doesn't, or for ever.
func (c *Call) deadline() time.Time {
	switch {
	case c.Status == Pending && c.Pause != nil:
		return c.Pause.ends()
	case c.Parked != nil:
		return c.Parked.Until
	}
	return time.Time{}
}

func (tx *Tx) expire(c *Call) error {
	if c.Parked != nil {
		return tx.settle(c, goneOutcome(c))
	}
	if c.Pause.beatIsMissed() {
		return tx.settle(c, unheardOutcome(c))
	}
	if !c.Pause.goesOnByTimer() {
		return tx.settle(c, expiredOutcome(c))
	}
	tx.unlist(c)
	return tx.goOnByTimer(c)
}

// live returns the call if it may still change. A pause that is overdue ends
// first: Expire ends only some at once.
func (tx *Tx) live(call string) (*Call, error) {
	c := tx.Call(call)
	if c != nil && c.overdue(tx.Now) {
		if err := tx.expire(c); err != nil {
			return nil, err
		}
	}
	if c == nil || c.Status == Settled {
		return nil, tx.settledError(call)
	}
	return c, nil
}

// settledError refuses an operation on a settled call, and tells how it ended.
func (tx *Tx) settledError(call string) error {
	if err := tx.notDeleted(call); err != nil {
		return err
	}
	var r Record
	found, err := tx.read(recordKey(tx.ID, call), &r)
	switch {
	case err != nil:
		return err
	case !found:
		return tx.unknownCall(call)
	}
	return r.settledError()
}

// unknownCall refuses an operation on a call that nothing is known of.
func (tx *Tx) unknownCall(call string) error {
	if err := tx.notDeleted(call); err != nil {
		return err
	}
	if tx.Children > 0 {
		return fmt.Errorf("%w: %q in session %q; if it is of a session below that one, "+
			"name that one: tool.Pause has it", ErrUnknownCall, call, tx.ID)
	}
	return fmt.Errorf("%w: %q in session %q", ErrUnknownCall, call, tx.ID)
}

// notDeleted refuses what comes for a call of a deleted session. Records and
// receipts may still be there, and tell nothing any more: a caller that was told
// of the deletion is told of nothing else after that.
func (tx *Tx) notDeleted(call string) error {
	if tx.Deleted.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: %q, with call %s", ErrDeleted, tx.ID, call)
}

var errMove = errors.New("session: no such transition")

// move takes the call to another status, if the table has that step.
func (c *Call) move(to CallStatus) error {
	if !transitions[c.Status][to] {
		return fmt.Errorf("%w: call %s from %s to %s", errMove, c.ID, c.Status, to)
	}
	c.Status = to
	return nil
}

// PauseID names the number-th pause of a call.
func PauseID(call string, number int) string { return call + "." + strconv.Itoa(number) }
