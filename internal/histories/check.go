package histories

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/session"
)

// Call is one whose history [Check] checks. Its body may be cut off at any time.
type Call struct {
	Once      bool // its effect
	Reconcile bool // the tool tells what became of a body that was cut off
	Text      bool // its output is a string
	// Pauses are what it waits for, one after the other, and then Done, if the
	// body's own output is the end.
	Pauses []byte
	Events int // how many events a pause of kind Events waits for
}

// What a call waits for.
const (
	Gate    = gate
	Output  = output
	Message = message
	Timer   = timer // at any time it may be over
	Events  = mail  // of name [EventName]
	Done    = done  // nothing: the body's output is the events that it was shown
)

// EventName is the name of the events of calls that wait for some. Their ids are
// "1", "2" and "3".
const EventName = "x"

// Operation is one of a history, between two times of one clock. What it asks
// for and what it came to are in the words of the model:
//
//	resume, send, cancel, progress   of Content, to a Pause or an Event, by an
//	                                 actor: accepted, duplicate of …, settled …
//	say                              a message, of which a repetition is none
//	end                              of the session
//	waits, result, call, receipts    what was shown: see the functions for it
//	entry                            what a body was shown of events
type Operation struct {
	Name    string
	Pause   int
	Event   string // its id
	Content string
	By      string

	From, To int64
	Came     string
	Begins   bool // Came is the beginning of what it came to
	// Uncertain: it may have happened, may yet happen, or may not.
	Uncertain bool
}

// Contents of answers that aren't outputs.
const (
	Approval = yes
	Failure  = failure
)

// Check reports whether some order of the operations on a call, each at one
// moment between its two times, explains what each came to. If none does, or if
// that is not known when patience is over, why tells.
func Check(c Call, all []Operation, patience time.Duration) (why string) {
	m := callModel{once: c.Once, lossy: true, slow: true, text: c.Text, told: c.Reconcile}
	for _, kind := range c.Pauses {
		s := step{kind: kind}
		switch kind {
		case timer:
			s.hours = 1
		case mail:
			m.mail, s.names, s.count = true, EventName, c.Events
		}
		m.steps = append(m.steps, s)
	}
	var history []porcupine.Operation
	for i, o := range all {
		// The clock stands at the hour at which timers may be over, and nothing
		// that has begun must be.
		in := operation{name: o.Name, pause: o.Pause, content: o.Content, by: o.By, now: 1,
			repeated: o.Name == "say"}
		if o.Event != "" {
			in.event = EventName + o.Event
		}
		if o.Uncertain {
			o.To = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: i, Input: in, Call: o.From,
			Return: o.To, Output: outcome{text: o.Came, begins: o.Begins, uncertain: o.Uncertain}})
	}
	result, facts := porcupine.CheckOperationsVerbose(m.porcupine(), history, patience)
	switch result {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("it is not known after %v whether any order explains %d operations",
			patience, len(all))
	}
	return "no order explains what was told and shown:\n" + describe(history, facts)
}

// porcupine is the model as porcupine takes it.
func (m *callModel) porcupine() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{callState{}} },
		Step: func(s, in, out any) (next []any) {
			for _, s := range m.after(s.(callState), in.(operation), out.(outcome)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%s: %s", in, out) },
	}
	return model.ToModel()
}

// describe prints the longest part of a history that can be explained, in the
// order that explains it, and then the rest.
func describe(all []porcupine.Operation, facts porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, part := range facts.PartialLinearizationsOperations() {
		for _, ops := range part {
			if len(ops) > len(longest) {
				longest = ops
			}
		}
	}
	var b strings.Builder
	left := map[string]int{}
	for _, o := range all {
		left[line(o)]++
	}
	for _, o := range longest {
		b.WriteString(line(o))
		left[line(o)]--
	}
	b.WriteString("and from there on none of these comes next:\n")
	for _, o := range all {
		if left[line(o)] > 0 {
			b.WriteString(line(o))
		}
	}
	return b.String()
}

// line is an operation, as it is printed.
func line(o porcupine.Operation) string {
	return fmt.Sprintf("  [%4d %4d] %s: %s\n", o.Call, o.Return, o.Input, o.Output)
}

// Waits is what a list of open pauses has of a call; 0: it isn't in it.
func Waits(pause int) string {
	if pause == 0 {
		return callState{}.waits()
	}
	return waitsText(pause, 0)
}

// Result is what an event shows of how a call ended. Output is empty where the
// body's own is the end.
func Result(status event.Status, output string) string {
	s := callState{status: session.CallSettled, settled: status}
	if status == event.Done {
		s.output = output
	}
	return s.result()
}

// Shows is what a look at a settled call shows. Of events it has how many came,
// and how many of them the body was shown.
func Shows(status event.Status, output string, pauses, came, shown int) string {
	s := callState{status: session.CallSettled, settled: status, pauses: pauses,
		box: mailbox{count: came, shown: shown}}
	if status == event.Done {
		s.output = output
	}
	return s.shows()
}

// Receipts is the list of what was accepted.
func Receipts(all []session.Receipt) string {
	var text []string
	for _, r := range all {
		text = append(text, receiptText(r.Pause, r.Actor, r.Fate))
	}
	return receiptsText(text)
}

// Shown is an event as a body is shown it, with a star if it is new. What a body
// is shown are these, with spaces between them.
func Shown(id, content string, isNew bool) string {
	return EventName + id + "=" + content + map[bool]string{true: "*"}[isNew]
}

func (o operation) String() string {
	s := fmt.Sprintf("%s %s", o.name, o.call)
	if o.pause > 0 {
		s += fmt.Sprint(".", o.pause)
	}
	if o.event != "" {
		s += " of " + o.event
	}
	if o.content != "" {
		s += " with " + o.content
	}
	if o.name == "extend" {
		s += fmt.Sprint(" until ", o.deadline)
	}
	if o.by != "" {
		s += " by " + o.by
	}
	return fmt.Sprintf("%s (runner %d, hour %d to %d)", s, o.runner, o.since, o.now)
}

func (o outcome) String() string {
	if o.uncertain {
		return "uncertain, " + o.text
	}
	return o.text
}
