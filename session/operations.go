package session

import (
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// The transitions that anybody may make, beside [Tx.Answer], whoever drives the session.

// Cancel cancels a call: at once, or, while its body may run, as soon as that ends.
func (tx *Tx) Cancel(call, by, why string) (Receipt, error) {
	rc := Receipt{Call: call, Kind: KindCancel, By: by, At: tx.Now}
	if r, found, err := tx.receipt(call, rc.slot()); err != nil || found {
		r.Duplicate = true
		return r, err
	}
	c, err := tx.live(call)
	if err != nil {
		return rc, err
	}
	tx.putReceipt(rc)
	tx.goOn()
	if c.Status == Running || tx.driven && c.Status != Pending && !c.Effect.NeedsClaim() {
		c.Cancel = &Cancel{By: by, Why: why, At: tx.Now}
		return rc, nil
	}
	return rc, tx.settle(c, CancelledOutcome(c, by, why, false))
}

// goOn lets an interrupted session go on without a caller, since somebody wants that.
func (tx *Tx) goOn() {
	if h := tx.Halt; h != nil && h.Finish == event.FinishInterrupted {
		tx.Halt = nil
	}
}

// Supersede denies calls that wait for a person, SupersedeAtOnce at most.
func (tx *Tx) Supersede(by string) error {
	n := 0
	for i := range tx.Calls {
		c := &tx.Calls[i]
		if c.Status != Pending || !ForPerson(c.Pause.Reason) {
			continue
		}
		if n++; n > SupersedeAtOnce {
			return nil
		}
		if c.overdue(tx.Now) {
			if err := tx.expire(c); err != nil {
				return err
			}
			continue
		}
		if err := tx.settle(c, supersededOutcome(c, by)); err != nil {
			return err
		}
	}
	return nil
}

// SupersedeAtOnce is how many calls one commit denies.
const SupersedeAtOnce = expireAtOnce

// ForPerson says that a person, rather than a machine, is waited for.
func ForPerson(r tool.Reason) bool {
	return r == tool.ReasonApproval || r == tool.ReasonInput
}

// Extend moves the deadline of an open pause, given by its id or its call's; zero takes it away.
func (tx *Tx) Extend(pause string, deadline time.Time) error {
	call, number := splitPause(pause)
	deadline = deadline.UTC().Truncate(time.Millisecond)
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Status != Pending || number != 0 && number != c.Pauses:
		return fmt.Errorf("%w: %s is not open", ErrNotPaused, pause)
	case !deadline.IsZero() && !deadline.After(tx.Now):
		return fmt.Errorf("session: the new deadline of %s, %s, is past", pause, deadline.Format(time.RFC3339))
	case deadline.Year() > maxYear:
		return fmt.Errorf("session: the new deadline of %s is after the year %d; the zero time takes it away", pause, maxYear)
	}
	tx.touch()
	p := *c.Pause
	p.Deadline, c.Pause = deadline, &p
	return nil
}

// maxYear is the last year that a stored time can be of: RFC 3339 has four digits for it.
const maxYear = 9999

// Delete leaves nothing but a tombstone; what lies beside the head goes afterwards.
func (tx *Tx) Delete() {
	tx.touch()
	for i := range tx.Calls {
		if c := &tx.Calls[i]; c.Status == Pending {
			tx.delete(inboxKey(c.Pause.Since, tool.PauseID(c.ID, c.Pauses)))
		}
	}
	*tx.State = State{
		Version: tx.Version, ID: tx.ID, User: tx.User, Agent: tx.Agent, Created: tx.Created, Deleted: tx.Now,
		Generation: tx.Generation, Epoch: tx.Epoch + 1, Wake: tx.Wake, Watched: tx.Watched, Commits: tx.Commits, later: tx.later,
	}
}
