package session

import (
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// How a wait handle ends. Its call has no layers and no work of its own. So it
// is over with the commit that takes its answer: the order in which handles end
// is that in which their answers came, whichever of them a drive comes to first.

// answered ends the open pause of the tool's own with an answer, and settles the
// call if that is a wait handle's.
func (tx *Tx) answered(c *Call, a *Answer) error {
	came := a.At
	if a.Kind == KindTimer {
		came = c.deadline()
	}
	tx.accept(c, a)
	if c.Action != ActionWait || a.Mode != tool.ModeOutput {
		return nil
	}
	return tx.settle(c, &Outcome{Status: event.Done, Output: a.Payload, Actor: a.Actor, Came: came})
}

// TimeOut ends the call of a wait handle as one whose time was over then, before
// it is: one that waited for the handle waits no longer. A call that a drive is
// about to have paused is an ErrNotPaused: it can be ended a moment later.
func (tx *Tx) TimeOut(call, by string, then time.Time) error {
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Action != ActionWait:
		return fmt.Errorf("%w: call %s is of no wait handle", ErrStale, call)
	case c.Status == Running || tx.driven && c.Status != Pending:
		return fmt.Errorf("%w: call %s is not paused yet", ErrNotPaused, call)
	}
	tx.goOn()
	return tx.settle(c, &Outcome{Status: event.Expired, Actor: by, Cause: tool.CauseExpired, Came: then,
		Output: StringBlob("Expired. One that waited for it waits no longer.")})
}

// came returns when what ends a wait handle's call came, if that was before now.
func (tx *Tx) came(c *Call, o *Outcome) time.Time {
	if c.Action != ActionWait || !o.Came.Before(tx.Now) {
		return time.Time{}
	}
	return o.Came
}

// WaitEnd returns when a wait handle has ended; zero: it is open.
func (h *Handle) WaitEnd() time.Time {
	if h.Wait == nil || h.Wait.End.IsZero() {
		return h.Ended
	}
	return h.Wait.End
}
