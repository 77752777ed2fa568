package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/gotype"
)

// Resumable makes a tool that asks questions, and acts on the answers. Start is
// run at first: it ends the call, or asks one of the questions. Each question
// has a step, which [On] makes; it is run with the answer, perhaps in another
// process, days later. It ends the call, or asks: the same question again, or
// another one.
//
//	var which = tool.NewQuestion[Booking, []Offer, Choice]("which")
//
//	book, err := tool.Resumable(spec,
//		func(ctx context.Context, in Trip) (tool.Result[Booking], error) {
//			return which.Ask("Which flight?", search(ctx, in)), nil
//		},
//		tool.On(which, func(ctx context.Context, in Trip,
//			re tool.Reply[[]Offer, Choice]) (tool.Result[Booking], error) {
//			return tool.Of(reserve(ctx, re.State[re.Answer.Offer]))
//		}))
//
// A function may also return [Pending] and [NeedInput], where the answer is the
// call's output. It is entered again by its questions alone.
//
// A tool that has one question only takes an answer to a question without a
// name for one to that: earlier versions of this package stored none.
func Resumable[In, Out any](s Spec, start func(context.Context, In) (Result[Out], error),
	steps ...Step[In, Out]) (Tool, error) {
	s.MayPause = true
	t, read, err := newTyped[In, Out](s)
	if err != nil {
		return nil, err
	}
	r := &resumable[In, Out]{start: start, steps: map[string]Step[In, Out]{}}
	if t.questions, err = r.take(steps); err != nil {
		return nil, fmt.Errorf("tool %q: %w", s.Name, err)
	}
	t.body = func(ctx context.Context, call Call) (Execution, error) {
		in, err := read(call)
		if err != nil {
			return Execution{}, err
		}
		return r.enter(ctx, *in, call.Answer)
	}
	return t, nil
}

// Step is a question of a [Resumable], and what is done with its answer.
type Step[In, Out any] struct {
	name     string
	question any // the *Question
	reads    questionReads
	act      func(context.Context, In, *Answer) (Result[Out], error)
	err      error
}

// questionReads is how answers to one question are judged: the schema that they
// have to fit, and what reads them as the tool will.
type questionReads struct {
	schema json.RawMessage
	reader *gotype.Reader
}

// On returns the step of a question: act is run with each answer to it.
func On[In, Out, State, Choice any](q *Question[Out, State, Choice],
	act func(context.Context, In, Reply[State, Choice]) (Result[Out], error)) Step[In, Out] {
	switch {
	case q == nil:
		return Step[In, Out]{err: errors.New("a question is nil")}
	case q.err != nil:
		return Step[In, Out]{err: q.err}
	case act == nil:
		return Step[In, Out]{err: fmt.Errorf("question %q: its function is nil", q.name)}
	}
	return Step[In, Out]{
		name: q.name, question: q, reads: questionReads{q.answer.Exact, q.answer.Reader()},
		act: func(ctx context.Context, in In, a *Answer) (Result[Out], error) {
			reply, err := q.reply(a)
			if again, ok := q.again(a, err); ok {
				return again, nil
			}
			if err != nil {
				return nil, err
			}
			return act(ctx, in, reply)
		},
	}
}

// resumable is the body of a tool that asks.
type resumable[In, Out any] struct {
	start func(context.Context, In) (Result[Out], error)
	steps map[string]Step[In, Out] // by the names of their questions
}

// take checks the functions and keeps the steps. It returns how answers to the
// questions are judged.
func (r *resumable[In, Out]) take(steps []Step[In, Out]) (map[string]questionReads, error) {
	switch {
	case r.start == nil:
		return nil, errors.New("the function that starts is nil")
	case len(steps) == 0:
		return nil, errors.New("it has no questions: Func makes such a tool")
	}
	reads := make(map[string]questionReads, len(steps))
	for _, s := range steps {
		switch _, twice := r.steps[s.name]; {
		case s.err != nil:
			return nil, s.err
		case s.act == nil:
			return nil, errors.New("a step was not made by On")
		case twice:
			return nil, fmt.Errorf("two of its questions are called %q", s.name)
		}
		r.steps[s.name], reads[s.name] = s, s.reads
	}
	return reads, nil
}

// enter runs the function whose turn it is.
func (r *resumable[In, Out]) enter(ctx context.Context, in In, a *Answer) (Execution, error) {
	if a == nil {
		return r.checked(r.start(ctx, in))
	}
	step, err := r.stepOf(a.Question)
	if err != nil {
		return Execution{}, err
	}
	return r.checked(step.act(ctx, in, a))
}

// stepOf returns the step of the question that was answered.
func (r *resumable[In, Out]) stepOf(name string) (Step[In, Out], error) {
	if name, ok := only(r.steps, name); ok {
		return r.steps[name], nil
	}
	names := slices.Sorted(maps.Keys(r.steps))
	if name == "" {
		return Step[In, Out]{}, fmt.Errorf("what was answered is none of the tool's questions, "+
			"which are %q; %s", names, sinceChanged)
	}
	return Step[In, Out]{}, fmt.Errorf("the question %q was answered, and the tool has it no more: "+
		"its questions are %q; %s", excerpt.Of(name), names, sinceChanged)
}

// only returns the name of the question that is meant: that one, if it is among
// them; where none is named, the only one.
func only[V any](questions map[string]V, name string) (string, bool) {
	if name == "" && len(questions) == 1 {
		for name = range questions {
			return name, true
		}
	}
	_, ok := questions[name]
	return name, ok
}

// checked returns what a function's result comes to, unless the tool could not
// be entered again with what it waits for.
func (r *resumable[In, Out]) checked(result Result[Out], err error) (Execution, error) {
	exec, err := execution(result, err)
	if err != nil || exec.Await == nil {
		return exec, err
	}
	a := exec.Await
	q := questionOf(result)
	switch normal, _ := a.Normalize(); {
	case q != nil && r.steps[a.Question].question != q:
		err = fmt.Errorf("the question %q has no step in this tool: it needs On", a.Question)
	case normal.Reason == ReasonRetry: // the same function is run again
		return exec, nil
	case q == nil && (normal.Mode == ModeReenter || a.OnTimeout == ReenterOnTimeout):
		err = fmt.Errorf("%w: a Resumable is entered again by its questions alone: "+
			"what it waits for otherwise has to be its output", ErrInvalidAwait)
	default:
		return exec, nil
	}
	return Execution{}, spoiled{err}
}
