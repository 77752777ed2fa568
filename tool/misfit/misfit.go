// Package misfit has the error of a JSON value that does not fit its schema.
//
// Errors about arguments, answers and results wrap an [*Error]: a form can show
// each [Fault] beside the field that it is about.
//
// The package does not check anything itself. Tools, the runner and the webhook
// do.
package misfit

import (
	"fmt"
	"strings"
)

// Error tells what in a value does not fit its schema, in words that let a
// model correct itself in one try.
type Error struct {
	Faults []Fault `json:"faults"` // at least one, ordered by path
	// More is how many further faults there are, at least: of very many, not
	// all are looked for.
	More int `json:"more,omitempty"`
}

// Fault is one thing that does not fit.
type Fault struct {
	// Path is a JSON Pointer (RFC 6901) into the value, cut short with "..."
	// where it is long; "" is the value itself.
	Path string `json:"path"`
	// Rule is the schema's keyword, as "required"; or "json" for a text that is
	// no strict JSON; or "decode" where the Go type does not take the value.
	Rule    string `json:"rule"`
	Value   string `json:"value,omitempty"` // the beginning of what stands at Path
	Message string `json:"message"`         // what is wrong, without the path
}

// Of returns the error of one fault at the value itself.
func Of(rule, message string) *Error {
	return &Error{Faults: []Fault{{Rule: rule, Message: message}}}
}

func (e *Error) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

// String returns the fault in words, the path first.
func (f Fault) String() string {
	s := f.Message
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	if f.Value != "" {
		s += ", got " + f.Value
	}
	return s
}
