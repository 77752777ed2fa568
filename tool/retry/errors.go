package retry

import (
	"errors"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Permanent marks the error of a tool's function as one that doesn't pass: the
// tool isn't tried again. Of nil it is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// Transient marks the error of a tool's function as one that may pass, and
// states that the try had no effect. So it is tried again, also where the tool's
// effect is once. Of nil it is nil.
func Transient(err error) error { return After(0, err) }

// After is [Transient], and the next try waits so long at least: what the header
// Retry-After of a service asks for. Longer than [MaxWait] counts as that. Of nil
// it is nil.
func After(wait time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{err, min(wait, MaxWait)}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type afterError struct {
	err  error
	wait time.Duration
}

func (e *afterError) Error() string { return e.err.Error() }
func (e *afterError) Unwrap() error { return e.err }

// mayPass reports whether the tool is tried again after an error. Of two marks
// on one error, that of Permanent counts.
func (r *retrying) mayPass(err error) bool {
	_, permanent := errors.AsType[*permanentError](err)
	_, transient := errors.AsType[*afterError](err)
	switch {
	case permanent || isFinal(err):
		return false
	case transient:
		return true
	case r.policy.If != nil:
		return r.policy.If(err)
	}
	return !r.once
}

// isFinal reports whether an error is none of the work: it ends the run, refuses
// the call, or is of a pause that can't be.
func isFinal(err error) bool {
	_, refused := errors.AsType[*tool.Refusal](err)
	return refused || tool.IsFatal(err) || tool.IsDenied(err) ||
		errors.Is(err, tool.ErrInvalidAwait) || errors.Is(err, tool.ErrMayNotPause)
}
