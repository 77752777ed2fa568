package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Again is an operator's statement that a lost entry of a call's body did not
// happen. The body is then entered once more, with a claim of its own. What the
// lost entry brought stays with the call, so that the new entry brings the same
// answer, and has the same idempotency key.
type Again struct {
	Pause   int       `json:"pause"`        // the number of the pause that it answered
	Attempt int       `json:"attempt"`      // that was lost; 0: it needed no claim
	Why     *Blob     `json:"why,omitzero"` // a JSON string
	Actor   string    `json:"by"`
	At      time.Time `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// maxAgain is how often a call is run again. The statements stand in the call's
// record, which is bounded, beside what was decided about the call.
const maxAgain = 8

// mayRunAgain returns why the answer to the open pause can't be that the call
// did not happen.
func (j *judgement) mayRunAgain() error {
	switch c := j.c; {
	case !c.Pause.Reason.MayRunAgain():
		return j.misfit(fmt.Errorf("it states that the call did not happen, and runs it again: "+
			"that is for a call whose outcome is unknown, and this one waits for reason %q",
			c.Pause.Reason))
	case len(c.Again) >= maxAgain:
		return j.misfit(fmt.Errorf("the call was run again %d times, which is as often as "+
			"that can be kept: complete it, or fail it", len(c.Again)))
	}
	return nil
}

// runAgain ends the open pause of a lost call: the body is entered again.
func (tx *Tx) runAgain(c *Call, in *Incoming) {
	tx.outdates()
	n := len(c.Again)
	c.Again = append(c.Again[:n:n], Again{
		Pause: c.Pauses, Attempt: c.Attempt, Why: tx.place(in.Why), Actor: in.Actor, At: tx.Now,
	})
	c.Pause, c.Status = nil, Answered
	tx.touch()
}

// undone reports whether an operator has stated that the last entry did not
// happen.
func (c *Call) undone() bool {
	n := len(c.Again)
	return n > 0 && c.Again[n-1].Attempt == c.Attempt
}

// checkAgain returns what is wrong with what operators have stated of a call.
func checkAgain(all []Again) error {
	for _, a := range all {
		if a.Pause < 1 || a.Attempt < 0 || a.Actor == "" || a.At.IsZero() {
			return errors.New("an operator's statement is incomplete")
		}
	}
	return nil
}
