package runner

import (
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// The bounds of how often a call pauses.
const (
	// maxMade is how many of a call's pauses may come with artifacts: where those
	// lie stands in the call's record, which is bounded.
	maxMade = 200
	// A call's first freeTimers pauses may be timers of any length. From then on
	// a timer takes timerFloor at least, and after shortTimers pauses a shorter
	// one is the call's error: a tool that doesn't look at its answer asks for
	// the same timer each time that it is entered, without end.
	freeTimers  = 20
	shortTimers = 200
	timerFloor  = time.Second
)

// mayPause refuses a pause that the call can't have, and lengthens a timer that
// is too short for one that has had many.
func (b *body) mayPause(a *tool.Await, made bool) error {
	switch {
	case made && len(b.c.Actions) >= maxMade:
		return fmt.Errorf("%s has paused %d times with artifacts, which is as often as a call may", b.c.Tool, maxMade)
	case a.Gate != "" && !b.c.MayBeDecided():
		return fmt.Errorf("%s was held by layers %d times, which is as often as what is decided about it can be kept",
			b.c.Tool, len(b.c.Decisions))
	case len(a.Schema) > tool.MaxSchema && a.Gate == "":
		return fmt.Errorf("%s asked to pause: the answer's schema has %d bytes, at most %d are taken",
			b.c.Tool, len(a.Schema), tool.MaxSchema)
	case a.Reason != tool.ReasonTimer || a.Timeout >= timerFloor || b.c.Pauses < freeTimers:
		return nil
	case b.c.Pauses >= shortTimers:
		return fmt.Errorf("%w: %s has paused %d times, and asks for a timer of %v again: after so many, one takes %v at least",
			tool.ErrInvalidAwait, b.c.Tool, b.c.Pauses, a.Timeout, timerFloor)
	}
	a.Timeout = timerFloor
	return nil
}
