package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// A body may ask to be entered again after a time, since a try of what it does
// has failed. The pause until then is no question to anyone: it takes no answer,
// and its end leaves the call with the answer that the try had brought. So the
// next try is the same entry, with the same idempotency key, and is shown the
// same events.

// Tried counts the tries that one entry of a call's body has failed.
type Tried struct {
	Count int       `json:"n"`
	Since time.Time `json:"since"` // when the first of them had failed
	At    time.Time `json:"at"`    // when the wait for the next one was over

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (t *Tried) check() error {
	if t != nil && (t.Count < 1 || t.Since.IsZero() || t.At.IsZero()) {
		return errors.New("the tries of its last entry are incomplete")
	}
	return nil
}

// isRetry reports whether the pause is until the next try. P may be nil.
func (p *Pause) isRetry() bool { return p != nil && p.Reason == tool.ReasonRetry }

// tryAgain ends the pause until the next try of a call.
func (tx *Tx) tryAgain(c *Call) {
	next := Tried{Count: 1, Since: c.Pause.Since}
	if c.Tried != nil { // readers of the head see that one: it must not change
		next = *c.Tried
		next.Count++
	}
	next.At = tx.Now
	c.Tried, c.Pause, c.Status = &next, nil, Answered
	tx.touch()
}

// unanswerable refuses what comes for the pause until the next try.
func (j *judgement) unanswerable() error {
	return refuse(fmt.Errorf("%w: call %s is tried again by itself at %s", ErrNotPaused, j.c.ID,
		j.c.Pause.Deadline.Format(time.RFC3339)))
}
