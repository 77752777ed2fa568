package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/tool"
)

// The refusals that callers tell apart. Each is wrapped with the value that it
// is about. Where one of them comes back, nothing was recorded.
var (
	ErrUnknownSession       = errors.New("session: no such session")
	ErrUnknownCall          = errors.New("session: no such call")
	ErrInvalidID            = errors.New("session: the id is not valid")
	ErrUnknownPause         = errors.New("session: no such pause")
	ErrWrongUser            = errors.New("session: the session belongs to another user")
	ErrDeleted              = errors.New("session: the session was deleted")
	ErrNotPaused            = errors.New("session: the call does not wait for an answer")
	ErrOtherGate            = errors.New("session: another layer asked for the pause")
	ErrOtherSender          = errors.New("session: it is taken from one sender alone")
	ErrNotApprover          = errors.New("session: the pause names others as its approvers")
	ErrPauseRequired        = errors.New("session: the call has several pauses; name the one meant")
	ErrNotYetKnown          = errors.New("session: not known yet; try again")
	ErrNotKept              = errors.New("session: the answer can't be kept")
	ErrAmbiguousKey         = errors.New("session: more than one open pause has the key")
	ErrResumeConflict       = errors.New("session: another answer was accepted before")
	ErrInvalidResumePayload = errors.New("session: the answer does not fit")
	ErrSettled              = errors.New("session: the call has its result")
	ErrCancelled            = errors.New("session: the call was cancelled")
	ErrExpired              = errors.New("session: the pause outlasted its deadline")
	ErrMessageConflict      = errors.New("session: another message was accepted under that id")
	ErrInvalidMessage       = errors.New("session: the message can't be taken")
	ErrUnknownEvent         = errors.New("session: the call takes no such event")
	ErrMailboxFull          = errors.New("session: the call takes no more events")
	ErrQueueFull            = errors.New("session: no more messages may wait")
	ErrUnknownMessage       = errors.New("session: no such message")
	ErrInvalidDeadline      = errors.New("session: the deadline is not valid")
	ErrUnknownHandle        = tool.ErrUnknownHandle
	ErrNameTaken            = errors.New("session: the handle's name is taken")
	ErrChild                = errors.New("session: the session is a child")
	ErrPending              = errors.New("session: calls wait for answers")
	ErrNoUndo               = errors.New("session: nothing is to be called off outside")
	ErrNoDeadLetter         = errors.New("session: there is no such dead letter")
	ErrBusy                 = errors.New("session: another drive holds the session")
	ErrFenced               = errors.New("session: this drive has lost its lease")
	ErrStale                = errors.New("session: another commit came first")
	ErrCorrupt              = errors.New("session: a stored record is damaged")
	ErrNewerVersion         = errors.New("session: a record was written by a newer version")
)

// Moved reports whether err refuses a transition because the session is no
// longer as its maker knew it: another commit came first.
func Moved(err error) bool {
	return errors.Is(err, ErrSettled) || errors.Is(err, ErrUnknownCall) ||
		errors.Is(err, ErrStale) || errors.Is(err, errMove)
}

// ConflictError refuses an answer because another one came first. Receipt is
// that of the first: its kind, its actor, and when it came.
type ConflictError struct{ Receipt Receipt }

func (e *ConflictError) Error() string { return e.told(" by " + orUnnamed(e.Receipt.Actor)) }

// Impersonal is Error without the name of who answered, for those who are not
// to know.
func (e *ConflictError) Impersonal() string { return e.told("") }

func (e *ConflictError) told(by string) string {
	r := e.Receipt
	if r.Kind == KindTimeout {
		return fmt.Sprintf("session: pause %s was over at %s: no answer had come in time, and "+
			"the call goes on without one", PauseID(r.Call, r.Pause), r.At.Format(time.RFC3339))
	}
	if r.Kind == KindEvent && r.Pause == 0 {
		return fmt.Sprintf("session: the event %s %q came for call %s before, with other content%s at %s",
			r.Event.Name, r.Event.ID, r.Call, by, r.At.Format(time.RFC3339))
	}
	with := string(r.Kind)
	if r.Decided != "" {
		with += " (" + r.Decided + ")"
	}
	return fmt.Sprintf("session: pause %s was answered before, with %s%s at %s",
		PauseID(r.Call, r.Pause), with, by, r.At.Format(time.RFC3339))
}

// Unwrap makes it an ErrResumeConflict.
func (e *ConflictError) Unwrap() error { return ErrResumeConflict }

// SettledError refuses an operation on a call that has its result. It unwraps
// to ErrCancelled or ErrExpired where that is how the call ended, and to
// ErrSettled always.
type SettledError struct {
	Call   string
	Status event.Status
	Actor  string
	At     time.Time
}

func (e *SettledError) Error() string {
	if e.Actor == "" {
		return e.told("")
	}
	return e.told(" by " + e.Actor)
}

// Impersonal is Error without the name of who settled the call, for those who
// are not to know.
func (e *SettledError) Impersonal() string { return e.told("") }

func (e *SettledError) told(by string) string {
	return fmt.Sprintf("session: call %s is settled: %s%s at %s", e.Call, e.Status, by,
		e.At.Format(time.RFC3339))
}

// Unwrap returns the sentinels: ErrSettled, and ErrCancelled or ErrExpired.
func (e *SettledError) Unwrap() []error {
	switch e.Status {
	case event.Cancelled:
		return []error{ErrSettled, ErrCancelled}
	case event.Expired:
		return []error{ErrSettled, ErrExpired}
	}
	return []error{ErrSettled}
}

// PauseRequiredError refuses an answer that names only a call which has paused
// more than once.
type PauseRequiredError struct {
	Call string
	Open string // the id of the pause that is open; empty if none is
}

func (e *PauseRequiredError) Error() string {
	if e.Open == "" {
		return fmt.Sprintf("session: call %s has paused more than once, and no pause is open; "+
			"name the pause", e.Call)
	}
	return fmt.Sprintf("session: call %s has paused more than once; name the pause: %s is open",
		e.Call, e.Open)
}

// Unwrap makes it an ErrPauseRequired.
func (e *PauseRequiredError) Unwrap() error { return ErrPauseRequired }

// UnknownEventError refuses an event that the call's tool doesn't take.
type UnknownEventError struct {
	Call, Tool string
	Name       string   // the event's
	Names      []string // of the events that the call takes
}

func (e *UnknownEventError) Error() string {
	if len(e.Names) == 0 {
		return fmt.Sprintf("session: call %s of %s takes no events", e.Call, e.Tool)
	}
	return fmt.Sprintf("session: call %s of %s takes no event %q; it takes %s",
		e.Call, e.Tool, excerpt.Of(e.Name), strings.Join(e.Names, ", "))
}

// Unwrap makes it an ErrUnknownEvent.
func (e *UnknownEventError) Unwrap() error { return ErrUnknownEvent }

// GateError refuses an answer that is for the pause of one layer at that of
// another: the number was taken by a layer that asked first.
type GateError struct {
	Pause string
	Gate  string // the layer that asked
	For   string // the layer that the answer is for
}

func (e *GateError) Error() string {
	return fmt.Sprintf("session: pause %s was asked for by the layer %q, and the answer is for "+
		"the layer %q; it takes one for %[2]q", e.Pause, e.Gate, e.For)
}

// Unwrap makes it an ErrOtherGate.
func (e *GateError) Unwrap() error { return ErrOtherGate }

// SenderError refuses an answer, or an event, that is taken from one sender
// alone, and that another has signed, or none.
type SenderError struct {
	Pause  string // or, of an event:
	Event  string // its name and id
	Sender string // from whom it is taken
}

func (e *SenderError) Error() string {
	what := "the pause " + e.Pause + " takes answers"
	if e.Pause == "" {
		what = "the event " + e.Event + " is taken"
	}
	return fmt.Sprintf("session: %s from the sender %q alone, which has to sign: "+
		"deliver through its verifier", what, e.Sender)
}

// Unwrap makes it an ErrOtherSender.
func (e *SenderError) Unwrap() error { return ErrOtherSender }

// ApproverError refuses the decision of an actor whom the pause doesn't name
// among those who decide.
type ApproverError struct {
	Pause string
	Actor string // who isn't among them
}

func (e *ApproverError) Error() string {
	return fmt.Sprintf("session: pause %s is decided by the approvers that it names, and %s is "+
		"none of them", e.Pause, orUnnamed(e.Actor))
}

// Impersonal is Error without the name of who tried, for those who are not to
// know.
func (e *ApproverError) Impersonal() string {
	return fmt.Sprintf("session: pause %s is decided by the approvers that it names", e.Pause)
}

// Unwrap makes it an ErrNotApprover.
func (e *ApproverError) Unwrap() error { return ErrNotApprover }

// PayloadError refuses an answer that does not fit what the pause asks for. Err
// names the fields, and why they don't fit.
type PayloadError struct {
	Pause string
	Event string // in place of Pause: the event's name and id
	Err   error
}

func (e *PayloadError) Error() string {
	if e.Event != "" {
		return fmt.Sprintf("session: the event %s does not fit: %v", e.Event, e.Err)
	}
	return fmt.Sprintf("session: the answer to pause %s does not fit: %v", e.Pause, e.Err)
}

// Unwrap makes it an ErrInvalidResumePayload.
func (e *PayloadError) Unwrap() []error { return []error{ErrInvalidResumePayload, e.Err} }

// PendingError refuses a user's message because calls wait. Pending and
// MorePending are as event.End has them.
type PendingError struct {
	Session     string
	Pending     []tool.Pause
	MorePending bool
	Parked      []event.Parked // for their tools, or agents, which are gone
	// Blocks is what keeps a message from superseding the calls that was to do
	// so; nil: none was.
	Blocks *Blocks
}

// Blocks is what can't be superseded: a call that waits for something else than
// a person, or a session in which work goes on, and then Call is empty.
type Blocks struct {
	Session string `json:"session"`
	Agent   string `json:"agent,omitempty"`
	Call    string `json:"call,omitempty"`
	Tool    string `json:"tool,omitempty"`
}

func (b *Blocks) told() string {
	if b.Call == "" {
		return fmt.Sprintf("the agent %s works in session %q; wait for it, or cancel the call "+
			"that waits for it", b.Agent, b.Session)
	}
	return fmt.Sprintf("a call of %s waits for something else than a person (%s, in session %q); "+
		"answer or cancel it", b.Tool, b.Call, b.Session)
}

func (e *PendingError) Error() string {
	for _, p := range e.Parked {
		if p.Agent != "" {
			return fmt.Sprintf("session %q: call %s waits for the agent %q (session %q), which "+
				"this runner doesn't have; run it where that agent is, or cancel the call",
				e.Session, p.Call, p.Agent, p.Session)
		}
	}
	if e.Blocks != nil {
		return fmt.Sprintf("session %q: the message can't supersede the calls: %s",
			e.Session, e.Blocks.told())
	}
	var people []tool.Pause
	agent := ""
	for _, p := range e.Pending {
		switch {
		case p.Await.Reason.Person():
			people = append(people, p)
		case p.Await.Reason != tool.ReasonAgent:
			return fmt.Sprintf("session %q: a call of %s waits for something else than a person "+
				"(%s), and can't be superseded; answer or cancel it", e.Session, p.Tool, p.ID)
		default:
			agent = p.ID
		}
	}
	switch {
	case len(people) > 1:
		return fmt.Sprintf("session %q: %d calls wait for answers (the first: %s, of %s); "+
			"answer or cancel them, or send the message so that it supersedes them",
			e.Session, len(people), people[0].ID, people[0].Tool)
	case len(people) == 1:
		return fmt.Sprintf("session %q: a call of %s waits for an answer (%s); "+
			"answer or cancel it, or send the message so that it supersedes the call",
			e.Session, people[0].Tool, people[0].ID)
	case agent != "":
		return fmt.Sprintf("session %q: an agent works for a call (%s); wait for it, or cancel it",
			e.Session, agent)
	case len(e.Parked) == 0: // one that was decoded may say no more
		return fmt.Sprintf("session %q: calls wait for answers", e.Session)
	}
	return fmt.Sprintf("session %q: call %s waits for its tool %s, which is gone; cancel it, "+
		"or send the message so that it supersedes the call",
		e.Session, e.Parked[0].Call, e.Parked[0].Tool)
}

// Unwrap makes it an ErrPending.
func (e *PendingError) Unwrap() error { return ErrPending }

// BusyError refuses to drive a session that another drive holds.
type BusyError struct {
	Session string
	// Until is when that drive's lease ends, unless it is renewed; zero where
	// leases don't end by time.
	Until time.Time
}

func (e *BusyError) Error() string {
	if e.Until.IsZero() {
		return fmt.Sprintf("session %q is driven elsewhere in this process", e.Session)
	}
	return fmt.Sprintf("session %q is driven elsewhere until %s", e.Session,
		e.Until.Format(time.RFC3339))
}

// Unwrap makes it an ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

func orUnnamed(actor string) string {
	if actor == "" {
		return "an unnamed actor"
	}
	return actor
}
