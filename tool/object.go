package tool

import (
	"bytes"
	"encoding/json"
	"slices"
)

// object is a JSON object whose members stay in order: models read a schema's properties in the order they are given. A value
// is an *object, a []any of values, or a json.RawMessage for the rest.
type object struct{ members []member }

type member struct {
	key   string
	value any
}

// newObject makes an object of keys and values in turn. A value that is no *object, []any or RawMessage is encoded.
func newObject(pairs ...any) *object {
	o := &object{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		o.set(key, pairs[i+1])
	}
	return o
}

func (o *object) index(key string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
}

func (o *object) get(key string) (any, bool) {
	if i := o.index(key); i >= 0 {
		return o.members[i].value, true
	}
	return nil, false
}

// text returns the value of key if it is a string.
func (o *object) text(key string) (string, bool) {
	v, _ := o.get(key)
	raw, ok := v.(json.RawMessage)
	if !ok {
		return "", false
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", false
	}
	return *s, true
}

func (o *object) has(key string) bool { return o.index(key) >= 0 }

// set replaces the value of key in its place, or adds it at the end.
func (o *object) set(key string, value any) {
	switch v := value.(type) {
	case *object, []any, json.RawMessage:
	default:
		raw, err := encode(v)
		if err != nil { // strings, numbers and their lists always encode
			raw = json.RawMessage("null")
		}
		value = raw
	}
	if i := o.index(key); i >= 0 {
		o.members[i].value = value
		return
	}
	o.members = append(o.members, member{key, value})
}

func (o *object) delete(key string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.key == key })
}

// clone copies the object itself, not what its values hold.
func (o *object) clone() *object { return &object{slices.Clone(o.members)} }

func (o *object) raw() json.RawMessage { return nodeText(o) }

func nodeText(v any) json.RawMessage {
	var b bytes.Buffer
	writeNode(&b, v)
	return b.Bytes()
}

func writeNode(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(Text(m.key))
			b.WriteByte(':')
			writeNode(b, m.value)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeNode(b, e)
		}
		b.WriteByte(']')
	case json.RawMessage:
		b.Write(v)
	}
}

// parseNode reads text that parseStrict has accepted into an object, or another node.
func parseNode(text json.RawMessage) (any, error) {
	text = bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(text) > 0 && text[0] == '{':
		return parseMembers(text)
	case len(text) > 0 && text[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		nodes := make([]any, len(list))
		for i, raw := range list {
			var err error
			if nodes[i], err = parseNode(raw); err != nil {
				return nil, err
			}
		}
		return nodes, nil
	default:
		var b bytes.Buffer
		err := json.Compact(&b, text)
		return json.RawMessage(b.Bytes()), err
	}
}

func parseMembers(text json.RawMessage) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // {
		return nil, err
	}
	o := &object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		v, err := parseNode(raw)
		if err != nil {
			return nil, err
		}
		k, _ := key.(string)
		o.members = append(o.members, member{k, v})
	}
	return o, nil
}
