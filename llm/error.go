package llm

import (
	"fmt"
	"time"
)

// Error is what a provider answered in place of a message.
type Error struct {
	Kind       ErrorKind
	Provider   string
	RequestID  string
	RetryAfter time.Duration // what a rate-limited caller was told; zero: nothing
	Err        error
}

// ErrorKind classifies a model's failure.
type ErrorKind string

// The kinds.
const (
	ErrRateLimited ErrorKind = "rate_limited"
	ErrOverloaded  ErrorKind = "overloaded"
	ErrNetwork     ErrorKind = "network"
	ErrTruncated   ErrorKind = "truncated" // the stream ended without its end marker
	// ErrMalformed: the stream breaks its own rules, such as arguments for no
	// call.
	ErrMalformed ErrorKind = "malformed"
	// ErrTooLong: the message goes over Collector.Limit or MaxCalls, or the
	// answer over what an adapter reads.
	ErrTooLong        ErrorKind = "message_too_long"
	ErrContextTooLong ErrorKind = "context_too_long"
	ErrInvalid        ErrorKind = "invalid_request"
	ErrAuth           ErrorKind = "authentication"
	ErrRefused        ErrorKind = "refused"
)

func (e *Error) Error() string {
	s := string(e.Kind)
	if e.Provider != "" {
		s = e.Provider + ": " + s
	}
	if e.RequestID != "" {
		s += fmt.Sprintf(" (request %s)", e.RequestID)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case ErrRateLimited, ErrOverloaded, ErrNetwork, ErrTruncated:
		return true
	}
	return false
}
