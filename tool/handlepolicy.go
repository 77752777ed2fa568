package tool

import (
	"encoding/json"
	"fmt"
	"time"
)

// AtEnd is what becomes of a handle that is open when the model would end its
// turn.
type AtEnd string

// The ends.
const (
	// InquireAtEnd: the model is asked whether to wait for it or to abort it.
	InquireAtEnd AtEnd = ""
	AwaitAtEnd   AtEnd = "await" // it is waited for
	AbortAtEnd   AtEnd = "abort"
	KeepAtEnd    AtEnd = "keep" // it goes on, also when the session is cancelled
)

// Acting is a Tool whose calls may act on handles of their session, and begin
// some. The runner and the registry look for it. A model calls such a tool while
// another of its calls goes on.
type Acting interface {
	// Acts returns what a call with these arguments does to a handle, and the
	// handle's name. Without an action it is a call as any.
	Acts(arguments json.RawMessage) (action, handle string)
}

// HandlePolicy is how a session treats a handle that no call fetches or awaits.
type HandlePolicy struct {
	AtEnd AtEnd `json:"at_end,omitzero"`
	// Limit is how long it is waited for once the model would end its turn. Then
	// it is aborted.
	Limit time.Duration `json:"-"` // zero: DefaultHandleLimit; at least a millisecond
	// What the model is not told by notices: that it has ended well, or has not,
	// and that it waits for an answer.
	NoSuccess bool `json:"no_success,omitzero"`
	NoFailure bool `json:"no_failure,omitzero"`
	NoWaiting bool `json:"no_waiting,omitzero"`
	// NewContent: each time before the model is asked, it is told what the
	// handle has produced since it was told last, head and tail.
	NewContent bool `json:"new_content,omitzero"`
}

// DefaultHandleLimit is the Limit of a HandlePolicy that has none.
const DefaultHandleLimit = time.Hour

// Check returns what is wrong with a policy.
func (p HandlePolicy) Check() error {
	switch p.AtEnd {
	case InquireAtEnd, AwaitAtEnd, AbortAtEnd, KeepAtEnd:
	default:
		return fmt.Errorf("AtEnd %q is none of %q, %q and %q, nor empty", p.AtEnd, AwaitAtEnd,
			AbortAtEnd, KeepAtEnd)
	}
	switch {
	case p.Limit < 0:
		return fmt.Errorf("the Limit %v is negative", p.Limit)
	case p.Limit > 0 && p.Limit < time.Millisecond: // records keep milliseconds
		return fmt.Errorf("the Limit %v is less than a millisecond; zero is the default, %v", p.Limit,
			DefaultHandleLimit)
	}
	return nil
}
