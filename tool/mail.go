package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/schema"
)

// MailboxEvent is a kind of outside event that a tool's calls take. It stands
// in Spec.Mailbox. [Event] makes it from a Go type.
type MailboxEvent struct {
	Name string // 1 to 64 letters, digits, '_', '-' or '.'
	// Schema is the JSON Schema of the payload. Empty, it takes every JSON
	// value.
	Schema json.RawMessage
	// Sender names the outside system from which alone the event is taken: the
	// one that has signed it, as a webhook's verifier has it. Empty, an event
	// needs no signature.
	Sender string

	reads *gotype.Reader // nil: it isn't known how the tool reads
}

// MaxMailbox is how many kinds of events a tool may take.
const MaxMailbox = 16

// Mail is an outside event that came for a call.
type Mail struct {
	Name string `json:"name"`
	// ID is the sender's. A second event of that name and id is a duplicate.
	ID      string          `json:"id"`
	Payload json.RawMessage `json:"payload"` // a JSON value that fits the event's schema
	Actor   string          `json:"by,omitempty"`
	At      time.Time       `json:"at"`
	// Of an InputEvent: the id of the question that the call's running body
	// asked when it was given, if it was given as the answer; empty: it is none.
	Question string `json:"question,omitempty"`
	Person   bool   `json:"person,omitempty"` // the runner's caller gave that answer, and no model
	// New: no entry of the body before this one was shown it.
	New bool `json:"new,omitempty"`
}

// MailWait is the events that a pause waits for. Only those count that no entry
// of the body was shown.
type MailWait struct {
	// Names are of events in the tool's Mailbox; none: all of them.
	Names []string `json:"names,omitempty"`
	// Count is how many events, of any of the names, end the pause. Zero: one
	// of each name.
	Count int `json:"count,omitempty"`
}

// AnyOf returns a pause that the first event of one of these names ends. Set
// Timeout or Deadline for a bound, and OnTimeout for the tool to be entered
// then with what had come by that time. What comes later is shown if the tool
// pauses once more.
func AnyOf(names ...string) Await { return CountOf(1, names...) }

// AllOf returns a pause that ends when an event of each of these names has
// come.
func AllOf(names ...string) Await { return waitsFor(0, names) }

// CountOf returns a pause that ends when n events of any of these names have
// come. Fewer than 1 is an ErrInvalidAwait.
func CountOf(n int, names ...string) Await {
	if n < 1 {
		n = -1
	}
	return waitsFor(n, names)
}

func waitsFor(n int, names []string) Await {
	return Await{
		Reason: ReasonExternal, Mode: ModeReenter,
		Mail: &MailWait{Names: slices.Clone(names), Count: n},
	}
}

// check returns what is wrong with a pause that waits for events.
func (w *MailWait) check(a *Await) error {
	switch {
	case w == nil:
		return nil
	case a.Gate != "":
		return fmt.Errorf("of layer %q: a layer's pause waits for a decision, and not for events",
			a.Gate)
	case a.Mode != ModeReenter || a.Reason != ReasonExternal:
		return fmt.Errorf("a pause for events has reason %q and mode %q, not %q and %q; "+
			"to wait for a person's word as well, make it one of the events",
			ReasonExternal, ModeReenter, a.Reason, a.Mode)
	case len(a.Schema) > 0:
		return errors.New("a pause for events has a schema; each event has its own, in Spec.Mailbox")
	case w.Count < 0:
		return errors.New("a pause for events waits for fewer than one")
	}
	for i, name := range w.Names {
		if slices.Contains(w.Names[:i], name) {
			return fmt.Errorf("a pause for events names %q twice", name)
		}
	}
	return nil
}

// within returns the wait with its names filled in, or what keeps a tool with
// such a mailbox from it.
func (w *MailWait) within(mailbox []MailboxEvent, limit int) (*MailWait, error) {
	if w == nil {
		return nil, nil
	}
	var known []string
	for _, e := range mailbox {
		known = append(known, e.Name)
	}
	own := MailWait{Names: slices.Clone(w.Names), Count: w.Count}
	if len(own.Names) == 0 {
		own.Names = known
	}
	for _, name := range own.Names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: it waits for the event %q, and Spec.Mailbox has %q",
				ErrInvalidAwait, excerpt.Of(name), known)
		}
	}
	switch n := own.least(); {
	case len(known) == 0:
		return nil, fmt.Errorf("%w: it waits for events, and Spec.Mailbox has none", ErrInvalidAwait)
	case n > limit:
		return nil, fmt.Errorf("%w: it waits for %d events, and a call takes %d at most",
			ErrInvalidAwait, n, limit)
	}
	return &own, nil
}

// least returns how many events end the pause at the earliest.
func (w *MailWait) least() int {
	if w.Count == 0 {
		return len(w.Names)
	}
	return w.Count
}

var goodEvent = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func checkEventName(name string) error {
	if !goodEvent.MatchString(name) {
		return fmt.Errorf("the event's name %q is not 1 to 64 letters, digits, '_', '-' or '.'",
			excerpt.Of(name))
	}
	return nil
}

// checkMailbox returns a tool's mailbox with its schemas in their normal form,
// or what is wrong with it.
func checkMailbox(s *Spec) ([]MailboxEvent, error) {
	switch n := len(s.Mailbox); {
	case n > 0 && !s.MayPause:
		return nil, errors.New("it has a Mailbox, and waits for nothing: set Spec.MayPause")
	case n > MaxMailbox:
		return nil, fmt.Errorf("its Mailbox has %d events, at most %d are allowed", n, MaxMailbox)
	}
	own := slices.Clone(s.Mailbox)
	for i := range own {
		e := &own[i]
		if err := checkEventName(e.Name); err != nil {
			return nil, err
		}
		if !plainName(e.Sender) {
			return nil, fmt.Errorf("the event %q: %w", e.Name, badSender(e.Sender))
		}
		for _, other := range own[:i] {
			if other.Name == e.Name {
				return nil, fmt.Errorf("its Mailbox has the event %q twice", e.Name)
			}
		}
		var err error
		if e.Schema, err = schema.GivenOutput(e.Schema); err == nil {
			_, err = schema.Compile(e.Schema)
		}
		if err == nil && len(e.Schema) > MaxSchema {
			err = fmt.Errorf("it has %d bytes, at most %d can be kept", len(e.Schema), MaxSchema)
		}
		if err != nil {
			return nil, fmt.Errorf("the schema of the event %q: %w", e.Name, err)
		}
	}
	return own, nil
}

// Event is a kind of outside event whose payload is a T. It is made once, for a
// package variable:
//
//	var Offer = tool.Must(tool.NewEvent[Quote]("offer"))
type Event[T any] struct {
	name    string
	payload *gotype.Answer[T]
}

// NewEvent makes an Event. The schema comes from T, as [Func] makes that of
// arguments; T need not be an object. An Event of json.RawMessage takes every
// JSON value.
func NewEvent[T any](name string) (*Event[T], error) {
	if err := checkEventName(name); err != nil {
		return nil, fmt.Errorf("tool: %w", err)
	}
	payload, err := gotype.NewAnswer[T]()
	if err != nil {
		return nil, fmt.Errorf("tool: event %q: %w", name, err)
	}
	return &Event[T]{name, payload}, nil
}

// Name returns the event's name, for [AnyOf] and its like.
func (e *Event[T]) Name() string { return e.name }

// Spec returns the event as it stands in Spec.Mailbox.
func (e *Event[T]) Spec() MailboxEvent {
	return MailboxEvent{
		Name: e.name, Schema: slices.Clone(e.payload.Exact), reads: e.payload.Reader(),
	}
}

// Received is an event that came, with its payload decoded.
type Received[T any] struct {
	Mail
	Value T
}

// From returns the events of this kind that have come for a call, in the order
// in which they were accepted. Each fits T, unless the tool was changed since:
// then that is an error.
func (e *Event[T]) From(c Call) ([]Received[T], error) {
	var all []Received[T]
	for _, m := range c.Mail {
		if m.Name != e.name {
			continue
		}
		d, err := e.payload.Fit(m.Payload)
		var value *T
		if err == nil {
			value, err = e.payload.Read(d)
		}
		if err != nil {
			return nil, fmt.Errorf(
				"the event %q %q can't be read; probably the tool was changed since it came: %w",
				m.Name, m.ID, err)
		}
		all = append(all, Received[T]{m, *value})
	}
	return all, nil
}
