package wire

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// Object is a JSON object whose members keep their order: models read a schema
// in it, and what a provider made goes back to it as it came. Its zero value is
// the empty object.
type Object struct{ Members []Member }

// Member is one member of an [Object]. Its value is compact JSON.
type Member struct {
	Name  string
	Value json.RawMessage
}

// ParseObject reads an object. Names that are equal stay, each in its place.
func ParseObject(text json.RawMessage) (Object, error) {
	if !json.Valid(text) {
		return Object{}, errors.New("no JSON")
	}
	v, err := jsontree.Parse(text)
	if err != nil {
		return Object{}, err
	}
	tree, ok := v.(*jsontree.Object)
	if !ok {
		return Object{}, errors.New("no JSON object")
	}
	o := Object{make([]Member, len(tree.Members))}
	for i, m := range tree.Members {
		o.Members[i] = Member{m.Key, jsontree.Text(m.Value)}
	}
	return o, nil
}

// Get returns the value of the first member of that name, nil where there is
// none.
func (o Object) Get(name string) json.RawMessage {
	if i := o.index(name); i >= 0 {
		return o.Members[i].Value
	}
	return nil
}

// Text returns the value of a member that is a string, and "" of any other.
func (o Object) Text(name string) string {
	var s string
	_ = json.Unmarshal(o.Get(name), &s)
	return s
}

// Has reports whether there is a member of that name.
func (o Object) Has(name string) bool { return o.index(name) >= 0 }

// Set gives a member its value, which is JSON, in its place or at the end.
func (o *Object) Set(name string, value json.RawMessage) {
	if i := o.index(name); i >= 0 {
		o.Members[i].Value = value
	} else {
		o.Members = append(o.Members, Member{name, value})
	}
}

// SetText is Set with a string.
func (o *Object) SetText(name, text string) { o.Set(name, quoted(text)) }

// Delete takes the members of that name out.
func (o *Object) Delete(name string) {
	o.Members = slices.DeleteFunc(o.Members, func(m Member) bool { return m.Name == name })
}

// Clone returns an object with members of its own.
func (o Object) Clone() Object { return Object{slices.Clone(o.Members)} }

// JSON returns the object with its values as they are.
func (o Object) JSON() json.RawMessage {
	out := []byte{'{'}
	for i, m := range o.Members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted(m.Name)...), ':'), m.Value...)
	}
	return append(out, '}')
}

func quoted(s string) json.RawMessage {
	raw, _ := Encode(s) // of a string, there is no error
	return raw
}

func (o Object) index(name string) int {
	return slices.IndexFunc(o.Members, func(m Member) bool { return m.Name == name })
}

// Encode returns a value as compact JSON. Unlike [json.Marshal] it leaves <, >
// and & as they are, which models take for broken code when they are escaped.
func Encode(v any) (json.RawMessage, error) { return jsontree.Encode(v) }
