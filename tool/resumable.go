package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// Ask pauses the call with a question, and keeps a state until it is answered. The state must survive being stored as JSON;
// one that does not is the call's error, which names the field.
type Ask[Out, State any] func(prompt string, s State) Result[Out]

// Reply is the answer to a question, with what was kept.
type Reply[Out, State, Choice any] struct {
	State  State
	Answer Choice
	By     string          // who answered
	Ask    Ask[Out, State] // asks again
}

// Resumable makes a tool that asks, then acts. The first function is run at first: it ends the call, or asks. The second is
// run with each answer, perhaps in another process, days later: it ends the call, or asks again.
//
// The schema of answers comes from Choice, as [Func] makes that of In; Choice
// need not be an object. It is stored with the question, and answers are
// checked against it before they are accepted. An answer that was accepted and
// can't be read all the same, since Choice was changed in between, is asked for
// again, with what is wrong with it: three times at most.
//
// State is stored as JSON. It is compared with what will be read back when it is stored, so that an interface that holds an
// int64, or an unexported field, is an error at once instead of a surprise later; a field tagged json:"-" is left out
// knowingly. When a new version of the program no longer reads what is stored (a field was removed or renamed, or changed its
// type), the call settles with an error that says so. Adding a field is fine.
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
	t.exact.answer = q.text
	t.answers = newReader[Choice](&q.choice, q.schema, q.foreign)
	t.body = func(ctx context.Context, call Call) (Execution, error) {
		in, err := read(call)
		if err != nil {
			return Execution{}, err
		}
		if call.Answer == nil {
			return settle(ask(ctx, *in, q.ask))
		}
		reply, err := q.reply(call.Answer)
		if again, ok := q.again(call.Answer, err); ok {
			return settle(again, nil)
		}
		if err != nil {
			return Execution{}, err
		}
		return settle(act(ctx, *in, reply))
	}
	return t, nil
}

// question is what a Resumable knows of its State and its Choice.
type question[Out, State, Choice any] struct {
	state   decoding
	choice  decoding
	foreign bool            // methods of Choice, or of types in it, read the answer
	text    json.RawMessage // the answer's schema
	schema  *Schema
}

func newQuestion[Out, State, Choice any]() (*question[Out, State, Choice], error) {
	state := reflect.TypeFor[State]()
	if _, err := infer(writing, state); err != nil && !errors.Is(err, jsontree.ErrTooLarge) {
		return nil, fmt.Errorf("state: %w", err)
	}
	kept, err := infer(reading, state)
	if errors.Is(err, jsontree.ErrTooLarge) {
		kept, err = inferred{dynamic: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	kept.defaults = nil // of no use to what a program stores for itself
	typ := reflect.TypeFor[Choice]()
	choice, err := inferAnswer(typ)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	schema, err := compileSchema(choice.exact)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	q := &question[Out, State, Choice]{
		state: newDecoding(state, kept, false), choice: newDecoding(typ, choice, false), text: choice.exact, schema: schema, foreign: choice.foreign,
	}
	q.state.known = true
	return q, nil
}

func (q *question[Out, State, Choice]) ask(prompt string, s State) Result[Out] {
	data, err := encodeValue(&s)
	if err != nil {
		return invalid[Out]{fmt.Errorf("the state of the question can't be kept: %w", err)}
	}
	back, err := decode[State](&q.state, data)
	if err != nil {
		return invalid[Out]{fmt.Errorf("the state of the question can't be kept: it would not be read back: %w", err)}
	}
	if why := differs(reflect.ValueOf(&s).Elem(), reflect.ValueOf(back).Elem(), ""); why != "" {
		return invalid[Out]{fmt.Errorf("the state of the question can't be kept: %s", why)}
	}
	return pending[Out]{Await{Reason: ReasonInput, Mode: ModeReenter, Prompt: prompt, Schema: q.text, Data: data}}
}

func (q *question[Out, State, Choice]) reply(a *Answer) (Reply[Out, State, Choice], error) {
	re := Reply[Out, State, Choice]{By: a.By, Ask: q.ask}
	const since = "probably the tool was changed since it asked"
	if len(a.Data) == 0 {
		return re, fmt.Errorf("the question was stored without a state; %s", since)
	}
	state, err := decode[State](&q.state, askedBefore(a).State)
	if err != nil {
		return re, fmt.Errorf("the state that was stored with the question can't be read; %s: %w", since, err)
	}
	payload, err := q.schema.Arguments(a.Payload)
	if err != nil {
		return re, &unreadableAnswer{fmt.Errorf("the answer does not fit the question; %s: %w", since, err)}
	}
	choice, err := q.read(payload)
	if err != nil {
		return re, &unreadableAnswer{fmt.Errorf("the answer can't be read; %s: %w", since, err)}
	}
	re.State, re.Answer = *state, *choice
	return re, nil
}

// read decodes an answer. A method of its type may panic.
func (q *question[Out, State, Choice]) read(payload json.RawMessage) (choice *Choice, err error) {
	defer func() {
		if recover() != nil {
			err = unusable("panicked")
		}
	}()
	return decode[Choice](&q.choice, payload)
}
