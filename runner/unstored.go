package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// An outcome that the store has failed to take is kept, and stored once the
// store can: nothing else knows what the body has done. Meanwhile its attempt is
// under way. If the store fails for long, the drive ends with its error, and the
// attempt tries on beside the bodies for which drain waits: while the lease
// lasts, and until the runner's end.

const (
	// firstPause and lastPause are how long it waits between two tries, at first
	// and in the end.
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// outagePatience is how long the store may fail before the drive ends.
	outagePatience = 5 * time.Second
)

// tried takes in how a try to store the outcome ended.
func (a *attempt) tried(err error) {
	before := a.unstored
	inDoubt := isAny(before, kvstore.ErrUncertain, session.ErrGoesOn)
	a.unstored = nil
	switch {
	case err == nil:
	case a.door.entered && session.IsOutage(err):
		if before == nil {
			a.log().Warn("what a call came to is not stored yet", "error", err)
		}
		if a.unstored = err; inDoubt { // which a later failure doesn't end
			a.unstored = before
		}
	case a.door.entered && errors.Is(err, session.ErrGoesOn) && a.own.waiting.Err() == nil:
		a.unstored = err // the loop waits no more, and what goes on may fail
	case inDoubt && session.Moved(err):
		// That try was stored after all; or the call was settled otherwise.
	case before != nil:
		a.fail(fmt.Errorf("%w; before that: %w", err, before))
	default:
		a.fail(err)
	}
}

// keepOn tries to store the outcome again. It returns when there is nothing to
// try any more; or, with the drive told, when the store has failed for long:
// then it is to be called again.
func (a *attempt) keepOn(context.Context) {
	began, pause := time.Now(), firstPause
	for a.unstored != nil {
		select {
		case <-time.After(pause):
			a.end(&a.own)
		case <-a.own.waiting.Done():
			a.log().Error("what a call came to may be lost: the store has failed up to the end",
				"error", a.unstored)
			a.unstored = nil
		}
		if a.unstored != nil && time.Since(began) >= outagePatience {
			a.product.fails(a.unstored)
			return
		}
		pause = min(2*pause, lastPause)
	}
}
