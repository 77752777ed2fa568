package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Part is a piece of a message: [Text], [Reasoning], [ToolCall], [ToolResult],
// [Notice], [Media], [Opaque] or [Unknown]. Parts are values, never pointers.
//
// A kind of part is a type with the methods below and UnmarshalJSON, in a file
// of its own, and has a row in kinds and in [pass.over]. All else follows from
// that: what its fields method visits is its JSON form, what is cleaned and
// copied, and its size.
type Part interface {
	json.Marshaler // a part by itself, in a record of calls, say, has the same form as in a message

	kind() string // its type in the JSON form
	from() []Role // whose messages it may stand in
	lack() string // what it lacks, without which every provider refuses it
	fields(*pass) // visits its fields, in the order of the JSON form; see pass.over
}

// kinds is the table of the kinds of part. All others are [Unknown].
var kinds = [...]Part{Text{}, Reasoning{}, ToolCall{}, ToolResult{}, Notice{}, Media{}, Opaque{}}

// kindOf returns the row of a type, nil where this version doesn't know it.
func kindOf(typ []byte) Part {
	for _, p := range kinds {
		if p.kind() == string(typ) {
			return p
		}
	}
	return nil
}

// The roles that most parts may be from.
var (
	fromModel = []Role{RoleAssistant}
	fromBoth  = []Role{RoleUser, RoleAssistant}
	fromTools = []Role{RoleTool}
)

// CheckPart returns an error that tells what keeps a part out of a message of
// that role: that it has no place there, or what it lacks. Every provider
// refuses such a message.
func CheckPart(role Role, p Part) error {
	switch {
	case !isValue(p) || !slices.Contains(p.from(), role):
		return fmt.Errorf("%T doesn't belong in a message of role %s", p, role)
	case p.lack() != "":
		return errors.New(p.lack())
	}
	return nil
}

// isValue reports whether p is a part. A pointer to a part has the methods of
// one too, but code that looks for parts looks for values.
func isValue(p Part) bool { return p != nil && reflect.TypeOf(p).Kind() != reflect.Pointer }

// over makes a pass over one part, and reports whether it is one. What the pass
// put out is in f.out: nil where nothing changed. It is a switch and no call by
// the interface so that the pass stays on the stack.
func (f *pass) over(p Part) (is bool) {
	f.changed, f.out = f.do == decoding, nil
	switch p := p.(type) {
	case Text:
		p.fields(f)
	case Reasoning:
		p.fields(f)
	case ToolCall:
		p.fields(f)
	case ToolResult:
		p.fields(f)
	case Notice:
		p.fields(f)
	case Media:
		p.fields(f)
	case Opaque:
		p.fields(f)
	case Unknown:
		p.fields(f)
	default:
		return false
	}
	return true
}

func marshalPart(p Part) ([]byte, error) {
	w := writer{b: make([]byte, 0, partSize(p)), depth: 4}
	if err := w.part(p); err != nil {
		return nil, fmt.Errorf("llm: %w", err)
	}
	return w.b, nil
}

func unmarshalPart[P Part](b []byte, into *P) error {
	if isNull(b) {
		return nil // by convention
	}
	p, err := readPart(b)
	if err != nil {
		return fmt.Errorf("llm: %w", err)
	}
	got, ok := p.(P)
	if !ok {
		return fmt.Errorf("llm: %T, where %T is expected", p, *into)
	}
	*into = got
	return nil
}
