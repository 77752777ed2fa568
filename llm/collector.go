package llm

import (
	"errors"
	"fmt"
	"iter"
)

// Collector puts a message together from the events of a stream. Its zero value
// is ready. It is for one stream, and one goroutine.
//
// It is strict, since a call that is put together wrongly does harm: an event
// that makes no sense where it comes is an [*Error] of kind [ErrMalformed],
// never dropped, and never glued to a call that it may not belong to.
type Collector struct {
	// Limit bounds the message, in bytes of what its events hold, and some for
	// each part that begins; zero: it has none. The event that goes over it, or
	// begins a call beyond [MaxCalls], is an [*Error] of kind [ErrTooLong].
	Limit int

	size   int
	parts  []Part      // in order of first appearance; a streamed call keeps its place with nil
	calls  []stream    // in that order too
	newest map[int]int // by index, the place in calls; nil as long as there are few
	asked  int         // calls, with those that came whole only
	open   writing     // what is being written, and follows parts
	text   joined
	finish Finish
	done   bool
}

// MaxCalls is how many tool calls a message may have. It is far beyond what
// models ask for at once: one that goes over it repeats itself.
const MaxCalls = 512

type writing int

const (
	none writing = iota
	text
	reasoning
)

// Add takes the stream's next event. After an error, what came before it is
// still there.
func (c *Collector) Add(e Event) error {
	if c.done {
		return malformed("%T comes after the end of the stream", e)
	}
	if err := c.grow(eventSize(e)); err != nil {
		return err
	}
	switch e := e.(type) {
	case TextDelta:
		return c.write(text, e.Text)
	case ReasoningDelta:
		return c.write(reasoning, e.Text)
	case ToolCallDelta:
		return c.delta(e)
	case PartDone:
		return c.whole(e.Part)
	case Finish:
		c.finish, c.done = e, true
	default:
		return malformed("%T is no event", e)
	}
	return nil
}

// grow counts more bytes of the message.
func (c *Collector) grow(n int) error {
	if c.size += n; c.Limit > 0 && c.size > c.Limit {
		return overlong("the message has more than %d bytes", c.Limit)
	}
	return nil
}

// Message returns the message as far as it has come, cleaned, and how it ended.
// Calls have no ID yet; their arguments are as [Arguments] makes them. Text and
// reasoning of nothing but white space are left out: some models write it
// before a call, and providers refuse to be sent it. So a model may have said
// nothing at all: the message then has no parts, and that is no error.
//
// After [StopLength], [StopRefusal] and [StopOther], a call that came in
// pieces, of which none had any arguments, may have been cut off before they
// came: several may be written side by side. After the first two, so may the
// last call, whatever stands behind it, if its arguments are empty. They are
// then a string that says so, which [Arguments] refuses, so that no tool runs
// without what it was going to be told. After a reason that has no neutral
// form, a call that is there to its end counts, one with the arguments {} too.
//
// Before a [Finish] has come, the error is an [*Error] of kind [ErrTruncated].
func (c *Collector) Message() (Message, Finish, error) {
	m := Message{Role: RoleAssistant}
	last := c.written()
	if n := len(c.parts); n > 0 || last != nil {
		m.Parts = make([]Part, n, n+1)
		copy(m.Parts, c.parts)
	}
	for i := range c.calls {
		if s := &c.calls[i]; !s.whole {
			// The error is Arguments' again when the call is judged.
			args, _ := s.arguments()
			m.Parts[s.place] = ToolCall{Name: s.name, ProviderID: s.id, Arguments: args}
		}
	}
	if last != nil {
		m.Parts = append(m.Parts, last)
	}
	m = m.Clean()
	switch c.finish.Reason {
	case StopLength, StopRefusal:
		c.cutOff(m.Parts, true)
	case StopOther:
		c.cutOff(m.Parts, false)
	}
	if !c.done {
		return m, Finish{}, &Error{Kind: ErrTruncated,
			Err: errors.New("the stream ended without its end marker")}
	}
	return m, c.finish, nil
}

// Collect drains a stream. With an error, the message is what had come until
// then.
func Collect(events iter.Seq2[Event, error]) (Message, Finish, error) {
	var c Collector
	for e, err := range events {
		if err == nil {
			err = c.Add(e)
		}
		if err != nil {
			m, _, _ := c.Message()
			return m, Finish{}, err
		}
	}
	return c.Message()
}

func malformed(format string, args ...any) error {
	return &Error{Kind: ErrMalformed, Err: fmt.Errorf(format, args...)}
}

func overlong(format string, args ...any) error {
	return &Error{Kind: ErrTooLong, Err: fmt.Errorf(format, args...)}
}

// write adds to the text or reasoning that is being written, or begins one.
func (c *Collector) write(k writing, s string) error {
	if s == "" {
		return nil
	}
	if c.open != k {
		if err := c.grow(partCost); err != nil {
			return err
		}
		c.close()
		c.open = k
	}
	c.text.add(s)
	return nil
}

// close ends the text or reasoning that is being written.
func (c *Collector) close() {
	if p := c.written(); p != nil {
		c.parts = append(c.parts, p)
	}
	c.open = none
	c.text.reset()
}

// written returns the part that is being written, nil where there is none.
func (c *Collector) written() Part {
	if c.open == none {
		return nil
	}
	s := c.text.string()
	switch {
	case isBlank(s):
		return nil
	case c.open == reasoning:
		return Reasoning{Text: s}
	}
	return Text{Text: s}
}

// whole takes a part that comes at once. It is copied, since the model, or a
// layer around it, may keep its own.
func (c *Collector) whole(p Part) error {
	if call, ok := p.(ToolCall); ok {
		return c.wholeCall(call)
	}
	k := none
	switch p.(type) {
	case Text:
		k = text
	case Reasoning:
		k = reasoning
	}
	if k != none && p.lack() != "" {
		c.instead(k, nil)
		return nil
	}
	// A tool result, too: a model doesn't answer its own calls.
	if err := CheckPart(RoleAssistant, p); err != nil {
		return malformed("%w", err)
	}
	c.instead(k, clonePart(p))
	return nil
}

// instead adds a part, unless it is nil, in place of what is being written if
// that is of the same kind.
func (c *Collector) instead(k writing, p Part) {
	if c.open == k {
		c.open = none
	}
	c.close()
	if p != nil {
		c.parts = append(c.parts, p)
	}
}

// eventSize is about what an event adds to a message, in bytes. A part that
// comes whole counts although it came in pieces before: it was held beside
// them.
func eventSize(e Event) int {
	switch e := e.(type) {
	case TextDelta:
		return len(e.Text)
	case ReasoningDelta:
		return len(e.Text)
	case ToolCallDelta:
		return len(e.ProviderID) + len(e.Name) + len(e.Arguments)
	case PartDone:
		return partSize(e.Part)
	}
	return 0
}
