package tool

import (
	"errors"
	"fmt"
	"time"
)

// Tried is how often one entry of a body has failed and was to be tried again.
//
// A body asks for that by an Await with ReasonRetry and a Timeout or a
// Deadline. At that time the body is entered once more as if for the first
// time: with the answer that it had, if any, and so with the same
// IdempotencyKey. What is different is Call.Tried. Nothing but the time ends
// such a pause: it takes no answer and no failure. It can be cancelled as any
// other, and Runner.Extend moves its time.
//
// Package tool/retry does this for any tool.
type Tried struct {
	Count int       // zero: this is the first try
	Since time.Time // when the first try had failed
	At    time.Time // when this try was due to begin, or later
}

// checkRetry returns what is wrong with a pause until the next try.
func (a *Await) checkRetry() error {
	switch {
	case a.Reason != ReasonRetry:
		return nil
	case a.Gate != "":
		return fmt.Errorf("of layer %q: reason %q is for tools", a.Gate, a.Reason)
	case a.Timeout <= 0 && a.Deadline.IsZero():
		return fmt.Errorf("reason %q goes with the time of the next try, and neither Timeout nor "+
			"Deadline has it", a.Reason)
	case a.Key != "" || len(a.Schema) > 0:
		return errors.New("the pause until the next try takes no answer, and has a key or a schema")
	}
	return nil
}
