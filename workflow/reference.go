package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Reference stands, in a step's arguments or in the output, for a value that is
// not there yet. Its JSON is {"from": pointer}.
type Reference struct{ pointer string }

// From refers to the output of a step, or, with a JSON Pointer such as
// "/parcel/id", to a value in it.
func From(step, pointer string) Reference {
	return Reference{"/steps/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step) + pointer}
}

// Input refers to the workflow's input, or, with a JSON Pointer such as
// "/order", to a value in it.
func Input(pointer string) Reference { return Reference{"/input" + pointer} }

// MarshalJSON writes the reference as it stands in a list.
func (r Reference) MarshalJSON() ([]byte, error) {
	b := strictjson.AppendString([]byte(`{"from":`), r.pointer)
	return append(b, '}'), nil
}

// reference returns the pointer of a value that is a reference: an object of the
// one member from, whose text begins with a slash. Any other object is data.
func reference(v any) (pointer string, is bool) {
	o, ok := v.(*jsontree.Object)
	if !ok || len(o.Members) != 1 || o.Members[0].Key != "from" {
		return "", false
	}
	text, ok := o.Text("from")
	return text, ok && strings.HasPrefix(text, "/")
}

// references lists the pointers in a value, in the order in which they stand.
func references(v any) (pointers []string) {
	// What fill makes of it is dropped; without an error there is none.
	_, _ = fill(v, func(pointer string) (any, error) {
		pointers = append(pointers, pointer)
		return json.RawMessage("null"), nil
	})
	return pointers
}

// fill returns a value of a list with what get returns in the place of each
// reference. It changes nothing of v. What it returns has values from outside in
// it, and is never filled again: what looks like a reference there is data.
func fill(v any, get func(pointer string) (any, error)) (any, error) {
	if pointer, is := reference(v); is {
		return get(pointer)
	}
	var err error
	switch v := v.(type) {
	case *jsontree.Object:
		own := v.Clone()
		for i := range own.Members {
			m := &own.Members[i]
			if m.Value, err = fill(m.Value, get); err != nil {
				return nil, err
			}
		}
		return own, nil
	case []any:
		own := make([]any, len(v))
		for i := range v {
			if own[i], err = fill(v[i], get); err != nil {
				return nil, err
			}
		}
		return own, nil
	}
	return v, nil
}

// keep is a reference that stays one.
func keep(pointer string) any { return jsontree.New("from", pointer) }

// tree reads JSON that may have references; nothing is {}.
func tree(raw json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return &jsontree.Object{}, nil
	}
	return jsontree.Parse(raw)
}

// stepOf returns the step that a pointer refers to; empty: it refers to the
// input. The rest leads on from its output, or from the input.
func stepOf(pointer string) (step string, rest []string, err error) {
	tokens, err := split(pointer)
	switch {
	case err != nil:
		return "", nil, err
	case tokens[0] == "input":
		return "", tokens[1:], nil
	case tokens[0] == "steps" && len(tokens) > 1 && tokens[1] != "":
		return tokens[1], tokens[2:], nil
	}
	return "", nil, fmt.Errorf("the reference %q is neither /input, nor /steps/ and the name of a "+
		"step; what leads on from there begins with a slash, as in /input/order", pointer)
}
