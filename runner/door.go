package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// door is how far an attempt has come on its way into the tool's body. It lets
// at most one call of next through, and none once the layers have returned, or
// the loop has shut it.
//
// A layer may call next from goroutines of its own, and the loop shuts the door
// from another. So a lock guards all of it. Once the layers have returned, only
// claimed and returned still change, and the goroutine that ends the attempt
// reads the others without the lock.
type door struct {
	mu sync.Mutex // guards the rest; held over nothing that waits

	// Over: the layers have returned, or are waited for no more. The body can't
	// be entered any more.
	over bool
	// Claimed: the call is claimed, or about to be, or needs no claim. It is
	// false again once the claim is taken back.
	claimed  bool
	entered  bool  // the tool's body was entered
	returned bool  // it returned without an error
	putOff   bool  // the body was not entered after all, and the call is as it was
	derived  bool  // the outcome follows from what is stored
	runtime  error // why the call could not be run, which is not the call's own failure

	ran json.RawMessage // the arguments of the body that was entered last
}

// tooLate refuses a call of next after the layers have returned.
func tooLate(tool string) error {
	return fmt.Errorf("the layers around tool %s have returned: it is too late to enter it", tool)
}

// claim notes that the call is about to be claimed, unless it is answered
// already, or must not be.
func (d *door) claim(own context.Context, c *session.Call, name string) (answered bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return false, tooLate(name)
	}
	if a := c.Answer; a != nil && a.Mode != tool.ModeReenter {
		d.derived = true
		return true, nil
	}
	if own.Err() != nil { // it ended while a layer ran that didn't look
		return false, context.Cause(own)
	}
	if d.claimed && c.Effect.NeedsClaim() {
		return false, fmt.Errorf("tool %s was entered already, and must not be entered twice", name)
	}
	d.claimed, d.putOff, d.runtime = true, false, nil // the last try doesn't count
	return false, nil
}

// pass is the last look. It returns why the body must not be entered, by the
// attempt's own context and by the one that the layers have passed on.
// Otherwise it notes that the body is entered.
func (d *door) pass(own, passed context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return tooLate(name)
	case own.Err() != nil:
		return context.Cause(own)
	case passed.Err() != nil:
		return &layerEnded{context.Cause(passed)}
	}
	d.entered, d.derived = true, false
	return nil
}

// layerEnded is why a body is not entered although the attempt's own context
// lasts: a layer has ended the context that it passed on.
type layerEnded struct{ error }

func (e *layerEnded) Unwrap() error { return e.error }

// turnBack notes that the body is not entered after all, and why. Over reports
// whether the layers have returned; then their result counts. Entered reports
// whether another call of next was let through.
func (d *door) turnBack(own context.Context, why error) (over, entered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entered || d.over {
		return d.over, d.entered
	}
	var layer *layerEnded
	d.putOff = !errors.As(why, &layer)
	if d.putOff && failsRun(why) && own.Err() == nil {
		d.runtime = why
	}
	return false, false
}

// unclaimed notes that the claim was taken back.
func (d *door) unclaimed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claimed = false
}

// neverEntered notes that the tool has returned before its own body began.
func (d *door) neverEntered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entered = false
}

// cameBack notes that the body has returned without an error.
func (d *door) cameBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.returned = true
}

// runs notes the arguments that the body is entered with.
func (d *door) runs(args json.RawMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ran = args
}

// arguments returns the arguments that the body was entered with last.
func (d *door) arguments(context.Context) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ran, nil
}

// close notes that the layers have returned.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// shut closes the door unless the body was entered, and reports whether it did.
func (d *door) shut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entered {
		return false
	}
	d.over = true
	return true
}

// claimsInVain reports whether a claim stands, or is under way, although no
// body was entered, nor can be.
func (d *door) claimsInVain() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over && d.claimed && !d.entered
}

// isDerived reports whether the outcome follows from what is stored.
func (d *door) isDerived() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.derived
}

// hasReturned reports whether the body has returned without an error.
func (d *door) hasReturned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.returned
}

// failsRun reports whether why, for which a body was not entered, is the
// store's failure. With any other reason the run goes on, or ends in order.
func failsRun(why error) bool {
	return !isAny(why, session.ErrFenced, session.ErrDeleted, session.ErrSettled,
		session.ErrUnknownCall, session.ErrCancelled, session.ErrGoesOn, errOutrun)
}
