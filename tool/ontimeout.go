package tool

import (
	"errors"
	"fmt"
	"time"
)

// OnTimeout is what becomes of a call whose pause has lasted until its deadline
// without an answer.
type OnTimeout string

// ReenterOnTimeout has the tool entered again, with an Answer whose TimedOut is
// set. It goes with each mode of a pause of the tool's own that has a Timeout
// or a Deadline, but for a timer, which re-enters anyway, and for an operator's
// word. A layer's pause takes none: a gate that was not opened stays shut.
const ReenterOnTimeout OnTimeout = "reenter"

// MaxYear is the last year of a deadline: times are stored as RFC 3339 has
// them, with four digits for it.
const MaxYear = 9999

// MinHeartbeat is the least of Await.Heartbeat: each one heard is stored.
const MinHeartbeat = time.Second

const maxHeartbeat = 366 * 24 * time.Hour

// checkTime returns what is wrong with how long a pause may last, or with what
// comes then. The reason is one of those known.
func (a *Await) checkTime() error {
	bounded := a.Timeout != 0 || !a.Deadline.IsZero()
	switch {
	case a.Timeout < 0 && a.Reason != ReasonTimer:
		return fmt.Errorf("timeout %v is negative", a.Timeout)
	case a.Timeout != 0 && !a.Deadline.IsZero():
		return fmt.Errorf("timeout %v and the deadline %s are both set: one of them says how long "+
			"the pause may last", a.Timeout, a.Deadline.Format(time.RFC3339))
	case a.Deadline.UTC().Year() > MaxYear:
		return fmt.Errorf("deadline is after the year %d; without one the pause lasts for ever",
			MaxYear)
	}
	switch {
	case a.Heartbeat == 0:
	case a.Reason != ReasonExternal || a.Gate != "":
		return fmt.Errorf("a heartbeat goes with reason %q of a tool, and this has %q", ReasonExternal,
			a.Reason)
	case a.Heartbeat < MinHeartbeat:
		return fmt.Errorf("a heartbeat every %v is asked for, at most one every %v is kept",
			a.Heartbeat, MinHeartbeat)
	case a.Heartbeat > maxHeartbeat:
		return fmt.Errorf("a heartbeat every %v is asked for, %v is the longest", a.Heartbeat,
			maxHeartbeat)
	}
	switch a.OnTimeout {
	case "":
		return nil
	case ReenterOnTimeout:
	default:
		return fmt.Errorf("unknown OnTimeout %q", a.OnTimeout)
	}
	switch {
	case a.Gate != "":
		return fmt.Errorf("of layer %q: OnTimeout is for tools; a gate that was not opened "+
			"refuses the call", a.Gate)
	case !reasons[a.Reason].told:
		return fmt.Errorf("OnTimeout does not go with reason %q", a.Reason)
	case !bounded:
		return errors.New("OnTimeout is set, and neither Timeout nor Deadline says when that is")
	}
	return nil
}
