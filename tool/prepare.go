package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
)

// Prepared is a call that may be run: its tool is known, and its arguments fit.
type Prepared struct {
	Tool Tool
	Spec *Spec // the registry's own, to be read
	Call Call  // as it was given; without arguments it has {}, and those that were encoded twice are decoded once
	// Left, if set, is told of a body that is left behind when its time is over; wait returns when it has ended.
	Left func(wait func())

	registry *Registry
	entry    *entry
}

// Prepare finds the tool of a call and checks the call's arguments. The error is a *Refusal, for the model to read. The tool
// itself is not run; but where an argument's type has a method of its own to read JSON, that is.
func (r *Registry) Prepare(call Call) (*Prepared, error) {
	e, ok := r.entries[call.Tool]
	if !ok {
		return nil, r.unknown(call.Tool)
	}
	call, err := r.check(e, call)
	if err != nil {
		return nil, err
	}
	return r.prepared(e, call), nil
}

// PrepareAnswered is Prepare for a call whose answer is its output. The work is
// done; so its arguments are not checked again, by a schema that may have
// changed since. Layers see them in the form that they saw before, as far as
// they fit.
func (r *Registry) PrepareAnswered(call Call) (*Prepared, error) {
	e, ok := r.entries[call.Tool]
	if !ok {
		return nil, r.unknown(call.Tool)
	}
	call = call.withArguments()
	call.Arguments = r.Derived(call.Tool, call.Arguments)
	return r.prepared(e, call), nil
}

func (r *Registry) prepared(e *entry, call Call) *Prepared {
	call.Effect = e.spec.Effect
	return &Prepared{Tool: e.tool, Spec: &e.spec, Call: call, registry: r, entry: e}
}

// check returns the call with its arguments marked as checked, in the form that
// fits: see [Schema.Arguments].
func (r *Registry) check(e *entry, call Call) (Call, error) {
	call = call.withArguments()
	if call.isChecked() {
		return call, nil
	}
	if n := len(call.Arguments); n > r.limits.Arguments {
		return call, &Refusal{Kind: ArgumentsTooLarge, Tool: call.Tool, Text: fmt.Sprintf(
			"The arguments of %s have %d bytes, at most %d are taken, and it was not run.", e.spec.Name, n, r.limits.Arguments)}
	}
	var err error
	if call.Arguments, err = e.input.Arguments(call.Arguments); err != nil {
		return call, invalidArguments(e.spec.Name, err)
	}
	valid := &checked{arguments: string(call.Arguments), typed: e.typed}
	if e.typed != nil {
		if valid.in, err = e.typed.decoded(call.Arguments); err != nil {
			return call, invalidArguments(e.spec.Name, err)
		}
	}
	call.checked = valid
	return call, nil
}

// checked are arguments that were found valid.
type checked struct {
	arguments string      // a copy that can't be changed
	typed     *typed      // the tool that in is for
	in        any         // what was decoded of them, as a *In, for the body that comes first
	taken     atomic.Bool // by a body, which may change it
}

// withArguments is the call with {} for no arguments: what a model sends for a tool that needs none.
func (c Call) withArguments() Call {
	if isNull(c.Arguments) {
		c.Arguments = json.RawMessage("{}")
	}
	return c
}

// isChecked reports whether the arguments are, byte for byte, those that were
// found valid. Layers may have written into them, or put others in their place.
func (c Call) isChecked() bool { return c.checked != nil && string(c.Arguments) == c.checked.arguments }

// take returns what was decoded of the arguments for t when they were checked, once.
func (c Call) take(t *typed) (in any, ok bool) {
	if !c.isChecked() || c.checked.typed != t || c.checked.taken.Swap(true) {
		return nil, false
	}
	return c.checked.in, true
}

// Refusal is why a call is not run. Its text is for the model.
type Refusal struct {
	Kind RefusalKind
	Tool string // as the model wrote it, cut short
	Text string
	Err  error // with InvalidArguments, a *ValidationError in most cases
}

// RefusalKind classifies a Refusal.
type RefusalKind string

// The kinds.
const (
	UnknownTool       RefusalKind = "unknown_tool"
	InvalidArguments  RefusalKind = "invalid_arguments"
	ArgumentsTooLarge RefusalKind = "arguments_too_large"
)

func (r *Refusal) Error() string { return r.Text }

func (r *Refusal) Unwrap() error { return r.Err }

func invalidArguments(name string, err error) error {
	if already, ok := err.(*Refusal); ok { // made here; a wrapped one is another tool's
		return already
	}
	return &Refusal{Kind: InvalidArguments, Tool: name, Err: err, Text: fmt.Sprintf(
		"The arguments do not fit, and %s was not run: %v. Correct them and call it again.", name, err)}
}

const maxListed = 50 // names in a refusal

// unknown refuses a call of a tool that is not there, in a way that lets the model go on.
func (r *Registry) unknown(name string) *Refusal {
	var b strings.Builder
	fmt.Fprintf(&b, "There is no tool %q, and nothing was run.", clip(name))
	if near, ok := nearest(name, r.names); ok {
		fmt.Fprintf(&b, " Did you mean %s?", near)
	}
	switch n := len(r.names); {
	case n == 0:
		b.WriteString(" There are no tools.")
	case n <= maxListed:
		fmt.Fprintf(&b, " The tools are: %s.", strings.Join(r.names, ", "))
	default:
		fmt.Fprintf(&b, " Some of the %d tools are: %s.", n, strings.Join(r.names[:maxListed], ", "))
	}
	return &Refusal{Kind: UnknownTool, Tool: clip(name), Text: b.String()}
}
