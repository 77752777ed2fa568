package event

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

type retryForm struct {
	Failures int       `json:"failures"`
	At       time.Time `json:"at"`
	Err      *failure  `json:"error,omitempty"`
}

// failure is the form of a model's error. It has a kind where there was an
// [llm.Error] in it.
type failure struct {
	Text         string        `json:"text"` // the whole
	Kind         llm.ErrorKind `json:"kind,omitempty"`
	Provider     string        `json:"provider,omitempty"`
	RequestID    string        `json:"request_id,omitempty"`
	RetryAfterMS float64       `json:"retry_after_ms,omitzero"`
	Cause        string        `json:"cause,omitempty"` // the text of what is in the llm.Error
}

func formRetry(ev Retry) (retryForm, error) {
	f := retryForm{Failures: ev.Failures, At: ev.At}
	if ev.Err == nil {
		return f, nil
	}
	f.Err = &failure{Text: ev.Err.Error()}
	if m, ok := errors.AsType[*llm.Error](ev.Err); ok {
		f.Err.Kind, f.Err.Provider, f.Err.RequestID = m.Kind, m.Provider, m.RequestID
		f.Err.RetryAfterMS = milliseconds(m.RetryAfter)
		if m.Err != nil {
			f.Err.Cause = m.Err.Error()
		}
	}
	return f, nil
}

func (f retryForm) event() (ev Retry, err error) {
	ev = Retry{Failures: f.Failures, At: f.At}
	if f.Err == nil {
		return ev, nil
	}
	if f.Err.Kind == "" {
		ev.Err = errors.New(f.Err.Text)
		return ev, nil
	}
	m := &llm.Error{Kind: f.Err.Kind, Provider: f.Err.Provider, RequestID: f.Err.RequestID}
	if m.RetryAfter, err = duration(f.Err.RetryAfterMS); err != nil {
		return ev, err
	}
	if f.Err.Cause != "" {
		m.Err = errors.New(f.Err.Cause)
	}
	if ev.Err = m; m.Error() != f.Err.Text {
		ev.Err = &around{f.Err.Text, m}
	}
	return ev, nil
}

// around is an error that had an llm.Error in it.
type around struct {
	text string
	err  *llm.Error
}

func (e *around) Error() string { return e.text }
func (e *around) Unwrap() error { return e.err }

// milliseconds returns a duration as JSON has it, with its fraction.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// duration returns what milliseconds was given: up to 104 days a float64 has
// every nanosecond.
func duration(ms float64) (time.Duration, error) {
	ns := math.Round(ms * float64(time.Millisecond))
	if math.Abs(ns) >= 1<<53 {
		return 0, fmt.Errorf("a duration of %g ms is too long", ms)
	}
	return time.Duration(ns), nil
}
