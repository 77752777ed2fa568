package webhook

import (
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Event is one thing that a sender tells, as a [Format] has found it in a body
// that was signed. All of it comes from that body, but for who signed.
type Event struct {
	Signed // who signed, and which delivery it is, if that is signed

	ID      string    // the sender's id of the event, where the format has one
	Type    string    // what happened, where the format has a word for it
	Source  string    // where, in the same way
	Subject string    // to what
	Time    time.Time // and when
	Key     string    // by KeyConfig.Key or KeyFunc; empty: it has none
	Data    json.RawMessage
	Err     error // why it can't be read; the others of a list are, all the same
}

// Mapping says what an event means: nothing, or one or several actions. It must
// be usable by several goroutines at once. An error means that the event is not
// of the form that the sender's events have; the log has it, and the sender is
// told that the event can't be read. Events that are of no interest are no
// error: senders would send them again and again.
type Mapping func(Event) ([]Action, error)

// Action is something to be done to a call.
type Action struct {
	// Do says what, by the permit that a token would need for it: complete,
	// fail, progress, cancel or event. The empty one does nothing. Decisions
	// take a token at its own path.
	Do tool.Permit

	// The call is that which waits under a key of a tool; empty, they are
	// Event.Key and KeyConfig.Tool. Or it is a token's, which stands in the
	// event since the sender was given it.
	Tool, Key string
	Token     string

	Payload   json.RawMessage // of a completion or an event; of progress: its data
	Message   string          // why it fails or is cancelled; of progress: its message
	Retryable bool            // of a failure: trying again may help
	Fraction  float64         // of progress
	Name      string          // of an event of the call's mailbox
	ID        string          // of that event; empty: Event.ID, or else Signed.Delivery
}

// outcome is what became of one action, or of an event without any.
type outcome struct {
	answer
	Item    int      `json:"item"` // which of the body's events it is about, from 0
	Problem *Problem `json:"problem,omitempty"`
}

// The statuses of outcomes, beside statusAccepted.
const (
	statusRefused = "refused"
	statusIgnored = "ignored"
)

// outcomes is the body of a response about a list of events.
type outcomes struct {
	Status  string    `json:"status"` // accepted
	Results []outcome `json:"results"`
}

// refusals is the same where the request as a whole is refused.
type refusals struct {
	Problem
	Results []outcome `json:"results,omitempty"`
}
