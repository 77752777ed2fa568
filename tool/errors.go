package tool

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// Fatal wraps an error so that it ends the run. Its text is the call's result
// all the same. The model reads it when the run is carried on, so keep out of
// it what is not for the model.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// IsFatal reports whether err, or what it wraps, came from Fatal.
func IsFatal(err error) bool {
	_, ok := errors.AsType[*fatalError](err)
	return ok
}

// Denied returns the error of a layer that does not let a call through. Its
// text tells the model that this is a refusal, and that nothing was done,
// rather than a failure it could mend.
func Denied(reason string) error { return &deniedError{reason} }

type deniedError struct{ reason string }

func (e *deniedError) Error() string {
	s := "The call was refused, and the tool was not run. Do not try again unless you are told to."
	if e.reason != "" {
		s += " Reason: " + e.reason
	}
	return s
}

// DenialReason returns what Denied was given. The runner stores it.
func (e *deniedError) DenialReason() string { return e.reason }

// IsDenied reports whether err, or what it wraps, came from Denied.
func IsDenied(err error) bool {
	_, ok := errors.AsType[*deniedError](err)
	return ok
}

// ErrMayNotPause ends a call whose tool asked for a pause that its Spec doesn't
// allow: a mistake of the tool's author.
var ErrMayNotPause = errors.New("asked to pause, but its Spec.MayPause is not set")

// ErrInvalidAwait ends a call whose tool, or a layer around it, asked for a
// pause that makes no sense: a mistake of its author.
var ErrInvalidAwait = errors.New("tool: await")

// Refusal is why a call is not run. Its text is for the model.
type Refusal struct {
	Kind RefusalKind
	Tool string // as the model wrote it, cut short
	Text string
	Err  error // with InvalidArguments, a *misfit.Error in most cases
}

// RefusalKind classifies a Refusal.
type RefusalKind string

// The kinds.
const (
	UnknownTool       RefusalKind = "unknown_tool"
	InvalidArguments  RefusalKind = "invalid_arguments"
	ArgumentsTooLarge RefusalKind = "arguments_too_large"
)

func (r *Refusal) Error() string { return r.Text }

func (r *Refusal) Unwrap() error { return r.Err }

func invalidArguments(name string, err error) error {
	if already, ok := err.(*Refusal); ok { // made here; a wrapped one is another tool's
		return already
	}
	return &Refusal{Kind: InvalidArguments, Tool: name, Err: err, Text: fmt.Sprintf(
		"The arguments do not fit, and %s was not run: %v. Correct them and call it again.", name,
		err)}
}

// PanicError is the error of user code that panicked, or ended its goroutine.
// Its text, which the model reads, has no stack.
type PanicError struct {
	Tool  string
	value any // what panic was given; nil for runtime.Goexit
	stack []byte
}

func (e *PanicError) Error() string {
	if e.value == nil {
		return fmt.Sprintf("%s ended its goroutine before it had a result", e.Tool)
	}
	return fmt.Sprintf("%s panicked: %s", e.Tool, excerpt.Of(fmt.Sprint(e.value)))
}

// Stack returns the goroutine's stack at the panic, for the log; nil for
// runtime.Goexit.
func (e *PanicError) Stack() []byte { return e.stack }

// recovered makes a panic of user code its error. It is deferred.
func recovered(name string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Tool: name, value: v, stack: debug.Stack()}
	}
}

// ErrTimeout is what a *TimeoutError unwraps to.
var ErrTimeout = errors.New("tool: timed out")

// TimeoutError is the error of a body that did not end within its Spec.Timeout.
type TimeoutError struct {
	Tool   string
	After  time.Duration
	Effect Effect
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("%s did not end within %v.", e.Tool, e.After)
	if e.Effect == Once {
		return s + " Whether it took effect is unknown: find that out before you call it again."
	}
	return s + " It may be called again."
}

func (e *TimeoutError) Unwrap() error { return ErrTimeout }
