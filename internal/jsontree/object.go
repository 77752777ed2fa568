// Package jsontree is JSON whose objects keep their members in order, and where
// in a JSON Schema other schemas stand. Models read a schema's properties in the
// order in which they stand.
package jsontree

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Object is a JSON object whose members stay in order. A value is an *Object, a
// []any of values, or a json.RawMessage for the rest.
type Object struct{ Members []Member }

// Member is a member of an object.
type Member struct {
	Key   string
	Value any
}

// New makes an object of keys and values in turn. A value that is no *Object,
// []any or RawMessage is encoded.
func New(pairs ...any) *Object {
	o := &Object{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		o.Set(key, pairs[i+1])
	}
	return o
}

func (o *Object) index(key string) int {
	return slices.IndexFunc(o.Members, func(m Member) bool { return m.Key == key })
}

// Get returns the value of key.
func (o *Object) Get(key string) (any, bool) {
	if i := o.index(key); i >= 0 {
		return o.Members[i].Value, true
	}
	return nil, false
}

// Text returns the value of key if it is a string.
func (o *Object) Text(key string) (string, bool) {
	v, _ := o.Get(key)
	raw, ok := v.(json.RawMessage)
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return strictjson.Unquote(raw), true
}

// Has reports whether there is a member of that name.
func (o *Object) Has(key string) bool { return o.index(key) >= 0 }

// Set replaces the value of key in its place, or adds it at the end.
func (o *Object) Set(key string, value any) {
	switch v := value.(type) {
	case *Object, []any, json.RawMessage:
	default:
		raw, err := Encode(v)
		if err != nil { // strings, numbers and their lists always encode
			raw = json.RawMessage("null")
		}
		value = raw
	}
	if i := o.index(key); i >= 0 {
		o.Members[i].Value = value
		return
	}
	o.Members = append(o.Members, Member{key, value})
}

// Delete takes a member out.
func (o *Object) Delete(key string) {
	o.Members = slices.DeleteFunc(o.Members, func(m Member) bool { return m.Key == key })
}

// Clone copies the object itself, not what its values hold.
func (o *Object) Clone() *Object { return &Object{slices.Clone(o.Members)} }

// Raw is the object as compact JSON.
func (o *Object) Raw() json.RawMessage { return Text(o) }

// Text is a value as compact JSON.
func Text(v any) json.RawMessage {
	var b bytes.Buffer
	write(&b, v)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case *Object:
		b.WriteByte('{')
		for i, m := range v.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(strictjson.AppendString(b.AvailableBuffer(), m.Key))
			b.WriteByte(':')
			write(b, m.Value)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, e)
		}
		b.WriteByte(']')
	case json.RawMessage:
		b.Write(v)
	}
}

// Parse reads one JSON value. Names that are equal stay, each in its place.
func Parse(text json.RawMessage) (v any, err error) {
	err = strictjson.Walk(bytes.Clone(text), func(c *strictjson.Cursor) error {
		v, err = value(c)
		return err
	})
	return v, err
}

func value(c *strictjson.Cursor) (any, error) {
	switch c.Next() {
	case '{':
		return object(c)
	case '[':
		return list(c)
	}
	raw, err := c.Value()
	return json.RawMessage(raw), err
}

func object(c *strictjson.Cursor) (*Object, error) {
	if err := c.Enter('{'); err != nil {
		return nil, err
	}
	o := &Object{}
	for c.More() {
		name, err := c.Value()
		if err != nil {
			return nil, err
		}
		v, err := value(c)
		if err != nil {
			return nil, err
		}
		o.Members = append(o.Members, Member{strictjson.Unquote(name), v})
	}
	return o, c.Leave()
}

func list(c *strictjson.Cursor) ([]any, error) {
	if err := c.Enter('['); err != nil {
		return nil, err
	}
	all := []any{}
	for c.More() {
		v, err := value(c)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, c.Leave()
}

// Encode is v as compact JSON without HTML escapes.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
