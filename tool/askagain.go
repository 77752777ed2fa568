package tool

import (
	"encoding/json"
	"errors"
	"fmt"
)

// unreadableAnswer is the error of an answer that was accepted, and that the
// tool can't read: it was changed since it asked.
type unreadableAnswer struct{ error }

func (e *unreadableAnswer) Unwrap() error { return e.error }

// repeated is what is kept with a question that is asked again, in the place of
// the state alone.
type repeated struct {
	Times  int             `json:"$times"` // so far
	Prompt string          `json:"$prompt"`
	State  json.RawMessage `json:"$state"`
}

// mostTimes is how often a question is asked again for one answer.
const mostTimes = 3

// askedBefore is what was kept with the question that was answered.
func askedBefore(a *Answer) repeated {
	var r repeated
	if err := json.Unmarshal(a.Data, &r); err == nil && r.Times > 0 && len(r.State) > 0 {
		return r
	}
	return repeated{Prompt: a.Prompt, State: a.Data}
}

// again asks the question of an answer that can't be read once more, and says
// why. Ok is false where nothing is wrong with it, or it was asked too often.
func (q *question[Out, State, Choice]) again(a *Answer, err error) (r Result[Out], ok bool) {
	var bad *unreadableAnswer
	if !errors.As(err, &bad) {
		return nil, false
	}
	kept := askedBefore(a)
	if kept.Times++; kept.Times > mostTimes {
		return nil, false
	}
	data, err := encodeValue(&kept)
	if err != nil {
		return nil, false
	}
	prompt := kept.Prompt
	if prompt == "" {
		prompt = "An answer is needed once more."
	}
	prompt += fmt.Sprintf(" (Asked again: %v.)", bad)
	return pending[Out]{Await{Reason: ReasonInput, Mode: ModeReenter, Prompt: prompt, Schema: q.text, Data: data}}, true
}
