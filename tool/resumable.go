package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/internal/gotype"
)

// Ask pauses the call with a question, and keeps a state until it is answered.
// The state must survive being stored as JSON; one that does not is the call's
// error, which names the field.
type Ask[Out, State any] func(prompt string, s State) Result[Out]

// Reply is the answer to a question, with what was kept.
type Reply[Out, State, Choice any] struct {
	State  State
	Answer Choice
	Actor  string          // who answered
	Ask    Ask[Out, State] // asks again
}

// Resumable makes a tool that asks, then acts. The first function is run at
// first: it ends the call, or asks. The second is run with each answer, perhaps
// in another process, days later: it ends the call, or asks again.
//
// The schema of answers comes from Choice, as [Func] makes that of In; Choice
// need not be an object. It is stored with the question, and answers are
// checked against it before they are accepted. An answer that was accepted and
// can't be read all the same, since Choice was changed in between, is asked for
// again, with what is wrong with it: three times at most.
//
// State is stored as JSON. It is compared with what will be read back when it
// is stored, so that an interface that holds an int64, or an unexported field,
// is an error at once instead of a surprise later; a field tagged json:"-" is
// left out knowingly. When a new version of the program no longer reads what is
// stored (a field was removed or renamed, or changed its type), the call
// settles with an error that says so. Adding a field is fine.
func Resumable[In, Out, State, Choice any](s Spec,
	ask func(context.Context, In, Ask[Out, State]) (Result[Out], error),
	act func(context.Context, In, Reply[Out, State, Choice]) (Result[Out], error)) (Tool, error) {
	if ask == nil || act == nil {
		return nil, fmt.Errorf("tool %q: a function is nil", s.Name)
	}
	s.MayPause = true
	t, read, err := newTyped[In, Out](s)
	if err != nil {
		return nil, err
	}
	q, err := newQuestion[Out, State, Choice]()
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", s.Name, err)
	}
	t.exact.answer, t.reads.answer = q.answer.Exact, q.answer.Reader()
	t.body = func(ctx context.Context, call Call) (Execution, error) {
		in, err := read(call)
		if err != nil {
			return Execution{}, err
		}
		if call.Answer == nil {
			return execution(ask(ctx, *in, q.ask))
		}
		reply, err := q.reply(call.Answer)
		if again, ok := q.again(call.Answer, err); ok {
			return execution(again, nil)
		}
		if err != nil {
			return Execution{}, err
		}
		return execution(act(ctx, *in, reply))
	}
	return t, nil
}

// question is what a Resumable knows of its State and its Choice.
type question[Out, State, Choice any] struct {
	state  *gotype.State[State]
	answer *gotype.Answer[Choice]
}

func newQuestion[Out, State, Choice any]() (*question[Out, State, Choice], error) {
	state, err := gotype.NewState[State]()
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	answer, err := gotype.NewAnswer[Choice]()
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return &question[Out, State, Choice]{state, answer}, nil
}

func (q *question[Out, State, Choice]) ask(prompt string, s State) Result[Out] {
	data, err := q.state.Write(&s)
	if err != nil {
		return invalid[Out]{fmt.Errorf("the state of the question can't be kept: %w", err)}
	}
	return q.pause(prompt, data)
}

// pause returns the question as a pause that keeps data.
func (q *question[Out, State, Choice]) pause(prompt string, data json.RawMessage) Result[Out] {
	return pending[Out]{Await{Reason: ReasonInput, Mode: ModeReenter,
		Prompt: prompt, Schema: q.answer.Exact, Data: data}}
}

func (q *question[Out, State, Choice]) reply(a *Answer) (Reply[Out, State, Choice], error) {
	re := Reply[Out, State, Choice]{Actor: a.Actor, Ask: q.ask}
	const since = "probably the tool was changed since it asked"
	if len(a.Data) == 0 {
		return re, fmt.Errorf("the question was stored without a state; %s", since)
	}
	state, err := q.state.Read(askedBefore(a).State)
	if err != nil {
		return re, fmt.Errorf("the state that was stored with the question can't be read; %s: %w",
			since, err)
	}
	payload, err := q.answer.Fit(a.Payload)
	if err != nil {
		return re, &unreadableAnswer{
			fmt.Errorf("the answer does not fit the question; %s: %w", since, err)}
	}
	choice, err := q.answer.Read(payload)
	if err != nil {
		return re, &unreadableAnswer{fmt.Errorf("the answer can't be read; %s: %w", since, err)}
	}
	re.State, re.Answer = *state, *choice
	return re, nil
}
