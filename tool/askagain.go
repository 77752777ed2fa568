package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/gotype"
)

// unreadableAnswer is the error of an answer that was accepted, and that the
// tool can't read: it was changed since it asked.
type unreadableAnswer struct{ error }

func (e *unreadableAnswer) Unwrap() error { return e.error }

// repeated is what is kept with a question that is asked again, in the place of
// the state alone.
type repeated struct {
	// Times counts the questions so far. It is the first member, by which
	// asksAgain knows the record.
	Times  int             `json:"$times"`
	Prompt string          `json:"$prompt,omitempty"` // its first words; empty: they are the prompt
	State  json.RawMessage `json:"$state"`
}

// mostTimes is how often a question is asked again for one answer.
const mostTimes = 3

// askedBefore returns what was kept with the question that was answered.
func askedBefore(a *Answer) repeated {
	var r repeated
	if err := json.Unmarshal(a.Data, &r); err != nil || r.Times == 0 || len(r.State) == 0 {
		r = repeated{State: a.Data}
	}
	r.Prompt = cmp.Or(r.Prompt, a.Prompt, "An answer is needed once more.")
	return r
}

// again asks the question of an answer that can't be read once more, with the
// reason. Ok is false where nothing is wrong with it, or it was asked too
// often.
func (q *Question[Out, State, Choice]) again(
	a *Answer, err error,
) (r Result[Out], ok bool) {
	var bad *unreadableAnswer
	if !errors.As(err, &bad) {
		return nil, false
	}
	kept := askedBefore(a)
	if kept.Times++; kept.Times > mostTimes {
		return nil, false
	}
	data, err := gotype.Encode(&kept)
	if err != nil {
		return nil, false
	}
	prompt := fmt.Sprintf("%s (Asked again: %s.)", kept.Prompt, excerpt.InBrief(bad.Error()))
	asked := q.asked(prompt, data)
	asked.await.Deadline, asked.await.OnTimeout = a.Deadline, a.OnTimeout
	return asked, true
}

// asksAgain reports whether a tool asks its question once more since the answer
// could not be read. No function of the tool has seen that answer.
func (a *Await) asksAgain() bool {
	return a != nil && a.Gate == "" && bytes.HasPrefix(a.Data, []byte(`{"$times":`))
}

// inFirstWords returns a question that is asked again without the reason: it
// needs little more room than it did at first.
func (a Await) inFirstWords() Await {
	kept := askedBefore(&Answer{Data: a.Data, Prompt: a.Prompt})
	prompt := kept.Prompt
	kept.Prompt = ""
	if data, err := gotype.Encode(&kept); err == nil {
		a.Prompt, a.Data = prompt, data
	}
	return a
}

// notAskedAgain returns the error of a question that can't be asked again. It
// comes before the tool acts, so that its text does not tell the model that the
// tool ran.
func notAskedAgain(tool string, err error) error {
	return fmt.Errorf(
		"the answer to %s can't be read, so that nothing was done with it; nor can the question "+
			"be asked again: %w", tool, err)
}
