package runner

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// RunAgain answers a pause of tool.ReasonUnknown: an operator has found that
// the call which a crash cut off did not happen, so its body is entered once
// more. The new entry has a claim of its own, and what the lost one had: the
// arguments, what was approved, the answer that it brought, and so the
// idempotency key. If a crash cuts it off too, an operator is asked again. At
// any other pause the answer is refused, as is one of no actor. Why may be
// empty; it is kept with the call.
func RunAgain(pause string, actor Actor, why string) Resumption {
	return Resumption{Pause: pause, Actor: actor, Again: true, Why: why}
}

// RanAgain is an operator's statement that an entry of a call's body did not
// happen, so that the body was entered again.
type RanAgain struct {
	Pause   int       `json:"pause"`   // the number of the pause that it answered
	Attempt int       `json:"attempt"` // that was lost
	Why     string    `json:"why,omitempty"`
	Actor   string    `json:"by"`
	At      time.Time `json:"at"`
}

// ranAgain reads what operators have stated of a call.
func (rn *Runner) ranAgain(
	ctx context.Context, id string, stored []session.Again,
) (all []RanAgain, err error) {
	for _, a := range stored {
		s := RanAgain{Pause: a.Pause, Attempt: a.Attempt, Actor: a.Actor, At: a.At}
		if s.Why, err = rn.store.Words(ctx, id, a.Why); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// againContradiction is contradiction for what a resumption says with Again.
func (r Resumption) againContradiction(failed bool) error {
	switch {
	case !r.Again && r.Why != "":
		return errors.New("it says why the call runs again, and not that it does; " +
			"Why goes with Again")
	case !r.Again:
		return nil
	case r.Decision != nil || failed || len(r.Payload) > 0:
		return errors.New("it states that the call did not happen, and has a payload, a failure " +
			"or a decision, and an answer is one of them")
	case r.Actor == "":
		return errors.New("it states that the call did not happen, and is of no actor; " +
			"set Resumption.Actor to who states it")
	}
	return nil
}
