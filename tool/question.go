package tool

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/gotype"
)

// Question is one of the questions of a [Resumable]. It has a name, the type of
// the State that is kept with it, and the type of its answers, Choice. It is
// made once and used by all calls; a package variable is a good place.
//
// The schema of answers comes from Choice, as [Func] makes that of In; Choice
// need not be an object. It is stored with each pause, and answers are checked
// against it before they are accepted. An answer that was accepted and can't be
// read all the same, since Choice was changed in between, is asked for again,
// with what is wrong with it: three times at most.
//
// State is stored as JSON. It is compared with what will be read back when it
// is stored, so that an interface that holds an int64, or an unexported field,
// is an error at once instead of a surprise later; a field tagged json:"-" is
// left out knowingly. When a new version of the program no longer reads what is
// stored (a field was removed or renamed, or changed its type), the call
// settles with an error that says so. Adding a field is fine.
type Question[Out, State, Choice any] struct {
	name   string
	state  *gotype.State[State]
	answer *gotype.Answer[Choice]
	err    error // of its construction; told by Resumable
}

// NewQuestion returns a question of tools that return Out. Its name, which
// follows the rules of tools' names, is stored with each pause: a question that
// gets another name leaves behind those that wait. A name or a type that won't
// do is an error of the [Resumable] that has the question.
func NewQuestion[Out, State, Choice any](name string) *Question[Out, State, Choice] {
	q := &Question[Out, State, Choice]{name: name}
	var of string // what the error is of
	if q.err = checkName(name); q.err != nil {
		q.err = fmt.Errorf("a question: %w", q.err)
		return q
	}
	if q.state, q.err = gotype.NewState[State](); q.err != nil {
		of = "state"
	} else if q.answer, q.err = gotype.NewAnswer[Choice](); q.err != nil {
		of = "answer"
	}
	if q.err != nil {
		q.err = fmt.Errorf("question %q: %s: %w", name, of, q.err)
	}
	return q
}

// Ask pauses the call with the question, in the words of prompt, and keeps s
// until it is answered. A state that does not survive being stored as JSON is
// the call's error, which names the field. [Within] bounds the wait.
func (q *Question[Out, State, Choice]) Ask(prompt string, s State) Result[Out] {
	if q.err != nil {
		return invalid[Out]{q.err}
	}
	data, err := q.state.Write(&s)
	if err != nil {
		return invalid[Out]{fmt.Errorf("the state of the question can't be kept: %w", err)}
	}
	return q.asked(prompt, data)
}

// asked returns the question as a pause that keeps data.
func (q *Question[Out, State, Choice]) asked(prompt string, data []byte) asked[Out] {
	return asked[Out]{q, Await{Reason: ReasonInput, Mode: ModeReenter, Question: q.name,
		Prompt: prompt, Schema: q.answer.Exact, Data: data}}
}

// asked is the Result of a question.
type asked[Out any] struct {
	question any // the *Question, by which it is told from another of its name
	await    Await
}

func (a asked[Out]) outcome(Out) (Execution, error) {
	return Execution{Await: a.await.Clone()}, nil
}

// questionOf returns the question that a result asks; nil: it asks none.
func questionOf[Out any](r Result[Out]) any {
	for {
		switch v := r.(type) {
		case *with[Out]:
			r = v.result
		case *within[Out]:
			r = v.result
		case asked[Out]:
			return v.question
		default:
			return nil
		}
	}
}

// Reply is what a question came to, with what was kept.
type Reply[State, Choice any] struct {
	State  State
	Answer Choice
	// TimedOut: no answer came in the time that [Within] gave the question,
	// with ReenterOnTimeout. Answer is the zero value.
	TimedOut bool
	Actor    string // who answered
}

const sinceChanged = "probably the tool was changed since it asked"

func (q *Question[Out, State, Choice]) reply(a *Answer) (Reply[State, Choice], error) {
	re := Reply[State, Choice]{Actor: a.Actor, TimedOut: a.TimedOut}
	if len(a.Data) == 0 {
		return re, errors.New("the question was stored without a state; " + sinceChanged)
	}
	state, err := q.state.Read(askedBefore(a).State)
	if err != nil {
		return re, fmt.Errorf("the state that was stored with the question can't be read; %s: %w",
			sinceChanged, err)
	}
	re.State = *state
	if a.TimedOut {
		return re, nil
	}
	payload, err := q.answer.Fit(a.Payload)
	if err != nil {
		return re, &unreadableAnswer{
			fmt.Errorf("the answer does not fit the question; %s: %w", sinceChanged, err)}
	}
	answer, err := q.answer.Read(payload)
	if err != nil {
		return re, &unreadableAnswer{
			fmt.Errorf("the answer can't be read; %s: %w", sinceChanged, err)}
	}
	re.Answer = *answer
	return re, nil
}
