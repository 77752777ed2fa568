package tool

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/gotype"
)

// Result is what a typed function makes of a call: [Done], [Pending],
// [NeedInput], or what a [Question] asks. It is sealed, and it names Out, so
// that a function that returns Result[A] can't return Pending[B].
//
// A function that returns a nil Result and a nil error made a mistake: that is
// an error for the model. One that returns both a Result and an error failed:
// the error counts.
//
// In a test, reflect.DeepEqual(r, Done(want)) compares any two results. r ==
// Done(want) does too where Out is comparable. Otherwise, and for two pauses, ==
// panics.
type Result[Out any] interface {
	outcome(Out) (Execution, error)
}

// Done ends the call with out as its result. It is encoded as JSON without HTML
// escapes. What can't be encoded (a NaN, a channel in an interface) is an error
// result that names the field.
func Done[Out any](out Out) Result[Out] { return done[Out]{out} }

// Of lifts what a function of (Out, error) returned: return tool.Of(f(ctx,
// in)).
func Of[Out any](out Out, err error) (Result[Out], error) {
	if err != nil {
		return nil, err
	}
	return Done(out), nil
}

// Pending pauses the call, which needs Spec.MayPause, for what the Await
// describes: by default an outside job.
func Pending[Out any](a Await) Result[Out] { return pending[Out]{a} }

// NeedInput pauses the call, which needs Spec.MayPause, until a person answers
// prompt with runner.Complete. The answer is checked against Out, and is the
// call's result. [Within] bounds the wait. For the user's next message to be the answer, return
// Pending[string](Await{Reason: ReasonInput, Mode: ModeMessage, Prompt:
// prompt}).
func NeedInput[Out any](prompt string) Result[Out] {
	return pending[Out]{Await{Reason: ReasonInput, Mode: ModeOutput, Prompt: prompt}}
}

// With adds side products to a result: artifacts for the caller, media for the
// model. It adds nothing to an error.
//
//	picture := &llm.Media{MediaType: "image/png", Data: png}
//	return tool.With(tool.Done(page), tool.Action{Media: picture}), nil
func With[Out any](r Result[Out], actions ...Action) Result[Out] {
	if r == nil {
		return nil
	}
	return &with[Out]{r, actions}
}

type with[Out any] struct {
	result  Result[Out]
	actions []Action
}

func (w *with[Out]) outcome(zero Out) (Execution, error) {
	exec, err := w.result.outcome(zero)
	if err == nil {
		exec.Actions = append(exec.Actions, cloneActions(w.actions)...)
	}
	return exec, err
}

type done[Out any] struct{ out Out }

func (d done[Out]) outcome(Out) (Execution, error) {
	text, err := gotype.Encode(&d.out)
	if err != nil {
		return Execution{}, fmt.Errorf("the tool's result has no JSON form: %w", err)
	}
	return Execution{Output: text}, nil
}

type pending[Out any] struct{ await Await }

func (p pending[Out]) outcome(Out) (Execution, error) {
	return Execution{Await: p.await.Clone()}, nil
}

// invalid is a Result that could not be made.
type invalid[Out any] struct{ err error }

func (i invalid[Out]) outcome(Out) (Execution, error) { return Execution{}, i.err }

// errNoResult is the error of a function that returned neither a result nor an
// error.
var errNoResult = errors.New("the tool returned neither a result nor an error")

// execution returns the Execution that a typed function's return values come to.
// It is the one place where that is decided.
func execution[Out any](r Result[Out], err error) (Execution, error) {
	switch {
	case err != nil:
		return Execution{}, err
	case r == nil:
		return Execution{}, spoiled{errNoResult}
	}
	var out Out
	exec, err := r.outcome(out)
	if err != nil {
		err = spoiled{err}
	}
	return exec, err
}
