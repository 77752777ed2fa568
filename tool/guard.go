package tool

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// recovered makes a panic of user code its error. It is deferred.
func recovered(name string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Tool: name, value: v, stack: debug.Stack()}
	}
}

// PanicError says that user code panicked, or ended its goroutine. Its text, which the model reads, has no stack.
type PanicError struct {
	Tool  string
	value any // what panic was given; nil for runtime.Goexit
	stack []byte
}

func (e *PanicError) Error() string {
	if e.value == nil {
		return fmt.Sprintf("%s ended its goroutine before it had a result", e.Tool)
	}
	return fmt.Sprintf("%s panicked: %s", e.Tool, clip(fmt.Sprint(e.value)))
}

// Stack is where it happened, for the log; nil for runtime.Goexit.
func (e *PanicError) Stack() []byte { return e.stack }

// ErrTimeout is what a *TimeoutError unwraps to.
var ErrTimeout = errors.New("tool: timed out")

// TimeoutError says that a body did not end within its Spec.Timeout.
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
