package handles

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// Addressee is who answers the question of a handle.
type Addressee string

// The addressees. What a layer, or an operator, is asked for is the user's as
// well: a model never answers it.
const (
	User      Addressee = "user"
	Assistant Addressee = "assistant" // the model
)

// Question is what a handle waits for.
type Question struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Schema is the JSON Schema of the answer; empty: it isn't told.
	Schema json.RawMessage `json:"schema,omitzero"`
	For    Addressee       `json:"for"`
}

// Failure is why a handle stopped without a result.
type Failure struct {
	Message   string   `json:"message"`
	Trace     []string `json:"trace"`     // how it came to it, if that is known; never null
	Transient bool     `json:"transient"` // the same again may succeed
}

// Reply is how a handle stands, as a model reads it. What a state doesn't have
// is empty:
//
//   - Running has the content that is new, perhaps none.
//   - Waiting has a question, and perhaps content.
//   - Stopped has a result or an error, and perhaps content.
type Reply struct {
	ID       string
	State    tool.HandleState
	Content  string
	Question *Question
	Result   json.RawMessage // the tool's output; a JSON string where that is a text
	Error    *Failure
}

// reply is a Reply as JSON.
type reply struct {
	ID       string           `json:"id"`
	State    tool.HandleState `json:"state"`
	Content  *string          `json:"content,omitzero"`
	Question *Question        `json:"question,omitzero"`
	Result   json.RawMessage  `json:"result,omitzero"`
	Error    *Failure         `json:"error,omitzero"`
}

// MarshalJSON writes the fields that go with the state, and no others. A reply
// that doesn't go with its state is an error.
func (r Reply) MarshalJSON() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	out := reply{r.ID, r.State, nil, r.Question, r.Result, r.Error}
	if r.State == tool.HandleRunning || r.Content != "" {
		out.Content = &r.Content
	}
	return strictjson.Append(nil, out)
}

// UnmarshalJSON reads what MarshalJSON wrote. What MarshalJSON wouldn't write
// is an error, but for members of other names, which are passed over.
func (r *Reply) UnmarshalJSON(b []byte) error {
	var in reply
	if err := strictjson.Read(b, &in); err != nil {
		return err
	}
	own := Reply{in.ID, in.State, "", in.Question, slices.Clone(in.Result), in.Error}
	if in.Content != nil {
		own.Content = *in.Content
	} else if in.State == tool.HandleRunning {
		return fmt.Errorf("handle %q: it is running, and has no content", excerpt.Of(in.ID))
	}
	if err := own.check(); err != nil {
		return err
	}
	*r = own
	return nil
}

// check returns what doesn't go with the state.
func (r Reply) check() error {
	if err := CheckID(r.ID); err != nil {
		return fmt.Errorf("the id of a handle: %w", err)
	}
	var err error
	switch has := len(r.Result) > 0; r.State {
	case tool.HandleRunning:
		if r.Question != nil || has || r.Error != nil {
			err = errors.New("it is running: it has content, and nothing else")
		}
	case tool.HandleWaiting:
		if r.Question == nil || has || r.Error != nil {
			err = errors.New("it is waiting: it has a question, and neither result nor error")
		}
	case tool.HandleStopped:
		if r.Question != nil || has == (r.Error != nil) {
			err = errors.New("it has stopped: it has a result or an error, and no question")
		}
	default:
		err = fmt.Errorf("its state is %q, and may be %s, %s or %s", excerpt.Of(string(r.State)),
			tool.HandleRunning, tool.HandleWaiting, tool.HandleStopped)
	}
	if q := r.Question; err == nil && q != nil &&
		(q.ID == "" || q.For != User && q.For != Assistant) {
		err = fmt.Errorf("its question has the id %q and is for %q, and not for %s or %s",
			excerpt.Of(q.ID), excerpt.Of(string(q.For)), User, Assistant)
	}
	if err != nil {
		return fmt.Errorf("handle %q: %w", r.ID, err)
	}
	return nil
}

// Answer returns the answer that a model gives by apply, in the form that fits
// a question's schema: as it is, or, where only that fits, the JSON that stands
// in the text. The error is a *misfit.Error of what was given.
func Answer(input, question json.RawMessage) (json.RawMessage, error) {
	s, err := schema.Compile(question)
	if err != nil {
		return nil, err
	}
	return fitting(input, s)
}

// LiveAnswer is Answer for a question of a body that runs. One without a schema,
// or with one that the body has written and that is none, takes any answer.
func LiveAnswer(input, question json.RawMessage) (json.RawMessage, error) {
	if len(question) == 0 {
		return input, nil
	}
	s, err := schema.Compile(question)
	if err != nil {
		return input, nil
	}
	return fitting(input, s)
}

func fitting(input json.RawMessage, s *schema.Schema) (json.RawMessage, error) {
	bad := s.Validate(input)
	if bad == nil {
		return input, nil
	}
	if words, ok := isText(input); ok && s.Validate(json.RawMessage(words)) == nil {
		return json.RawMessage(words), nil
	}
	return nil, bad
}
