package handle

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/tool"
)

// Process is a tool with a live body: one that runs from a start to an end of
// its own, shows content meanwhile, and takes input. [Live] makes a tool of it.
type Process interface {
	Spec() tool.Spec
	// InputSchema is the JSON Schema of one input; empty: there is none.
	InputSchema() json.RawMessage
	// CheckInput returns what is wrong with an input, in words for the model
	// that gave it. It depends on the input alone, so that it can be asked
	// before the input is stored, in any process.
	CheckInput(json.RawMessage) error
	// Start begins a body. The context ends with the call; the body is ended by
	// Body.Stop alone. An error is the call's, and there is no body then.
	Start(context.Context, Start) (Body, error)
}

// Start is what a body begins with.
type Start struct {
	Call tool.Call
	// Answers are those to the questions with which earlier bodies of the call
	// ended, in their order.
	Answers []Answer
}

// Body is the live body of one call. Next and Input may be called at the same
// time, and Stop at any.
type Body interface {
	// Next waits for something new, and returns it. What comes faster than it
	// is asked for comes together. The error is io.EOF once the body has ended
	// and all was returned, or the context's.
	Next(context.Context) (Update, error)
	// Input gives the body an input. It returns when the body has it. An error
	// is told in the content, and the body goes on.
	Input(context.Context, Input) error
	// Stop asks the body to end, ends it by force after a grace, and returns
	// when it is gone, with all that it had started. It may be called again,
	// with another grace, and after the end.
	Stop(grace time.Duration)
	// Result returns what the body came to. It is called after Next has
	// returned io.EOF. An error is the call's result.
	Result() (Ended, error)
}

// Input is one input of a body.
type Input struct {
	// Value is a JSON value that fits InputSchema; nil: none comes any more.
	Value json.RawMessage
	// Question is the id of the question as whose answer it was given; empty:
	// it is no answer. The body may have gone on meanwhile, see Answers.
	Question string
	Person   bool // the runner's caller gave it, and no model
}

// Answers reports whether an input is the answer to a question that stands: it
// was given for that one, by a person if the question isn't the model's to
// answer. Q may be nil.
func (in Input) Answers(q *Question) bool {
	return q != nil && q.ID == in.Question && (in.Person || q.For == Assistant)
}

// Update is what is new of a body, and how it stands since then.
type Update struct {
	// Content is what was produced since the last Update: UTF-8.
	Content string
	// Screen: the content is a screen as a whole, and takes the place of what
	// was there. Nil: it is added to that.
	Screen *Screen
	// Question is what the body waits for; nil: for nothing. Input.Answers
	// tells the answer from other input. Its ID has 1 to 256 bytes, and is another one's than those
	// before.
	Question *Question
}

// Screen is the size of a screen, and where its cursor is. Its content has a
// line for each row; spaces at the ends of rows are left out, and so are empty
// rows at the end.
type Screen struct {
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
	// Row and Column are the cursor's, from 1.
	Row    int `json:"row"`
	Column int `json:"column"`
}

// Ended is what a body came to: an output, or a question.
type Ended struct {
	Output json.RawMessage
	// Question: the body has ended since it needs an answer; it is to be
	// started again with it. Output is ignored.
	Question *Question
}

// Question is what a body asks.
type Question = handles.Question

// Who answers a question.
const (
	User      = handles.User
	Assistant = handles.Assistant // the model
)

// Answer is the answer to a question.
type Answer struct {
	ID      string          `json:"id"` // the question's
	Payload json.RawMessage `json:"answer"`
}

// Asked is a question with which a body ended, and the answers so far. It stands
// in the Data of the call's [tool.Await].
type Asked struct {
	Question Question `json:"question"`
	Answers  []Answer `json:"answers,omitempty"`
}

// Failure is the error of a body that failed and said how.
type Failure = handles.Failure

// Host is how a live body reaches the runtime. The Host of a [tool.Call] may
// have its methods. Without them nothing is shown, and no input comes.
type Host interface {
	// Update takes what is new of the call's body. While it works, the body's
	// content is gathered. An error ends the body, and is the call's.
	Update(context.Context, tool.Call, Update) error
	// NextInput waits for the next input of the call. The error io.EOF: none
	// will come. Another one ends the body, and is the call's.
	NextInput(context.Context, tool.Call) (Input, error)
}
