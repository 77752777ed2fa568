package event

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Marshal returns the JSON form of an event: an object whose first member,
// "type", says which one it is, and whose others are as the tags of the event's
// type have them. docs/events.md shows each. The form is stable: a type keeps
// its name, and a member its meaning; types and members may be added.
//
// The form is one line, so that a model's white space can't end a line of
// server-sent events. Else raw JSON in the event, such as a call's arguments,
// goes out as it is, with its digits and escapes. encoding/json would leave out
// the type, and make nothing of a Retry's error. An error is of a nil, or of an
// event with what has no JSON.
func Marshal(ev Event) ([]byte, error) {
	b, err := marshal(ev)
	if err == nil {
		b, err = strictjson.Compact(b)
	}
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return b, nil
}

func marshal(ev Event) ([]byte, error) {
	if _, ok := ev.(Nested); ok {
		b, _, err := nested.write(ev)
		return b, err
	}
	return marshalFlat(ev)
}

// marshalFlat is for events of all types but Nested.
func marshalFlat(ev Event) ([]byte, error) {
	if other, ok := ev.(Other); ok {
		return other.raw()
	}
	for i := range kinds {
		if b, is, err := kinds[i].write(ev); is {
			return b, err
		}
	}
	return nil, fmt.Errorf("%T can't stand here", ev)
}

// Unmarshal returns the event that Marshal wrote, by this version of the
// library or another one. A type that this version doesn't know is an
// [Other], and a member that it doesn't know is passed over. So a program may
// be older than the server whose events it reads. What no version writes is an
// error: text that is no JSON object, or has no type; a member that is there
// twice, is null, is missing, or is named in another case.
func Unmarshal(b []byte) (Event, error) {
	ev, err := unmarshal(b)
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return ev, nil
}

func unmarshal(b []byte) (Event, error) {
	name, err := typeOf(b)
	switch {
	case err != nil:
		return nil, err
	case name == nested.name:
		return nested.read(b)
	}
	return unmarshalFlat(name, b)
}

// unmarshalFlat is for events of all types but nested.
func unmarshalFlat(name string, b []byte) (Event, error) {
	if name == nestedName {
		return nil, fmt.Errorf("an event of the type %q can't stand here", name)
	}
	for i := range kinds {
		if kinds[i].name == name {
			return kinds[i].read(b)
		}
	}
	return Other{Type: name, Raw: bytes.Clone(bytes.TrimSpace(b))}, nil
}

// typeOf returns the type that a JSON text names.
func typeOf(b []byte) (string, error) {
	var head struct {
		Type string `json:"type"`
	}
	err := strictjson.Read(b, &head)
	if err == nil && head.Type == "" {
		err = errors.New("its type is empty")
	}
	return head.Type, err
}

// raw returns an event as it was read.
func (ev Other) raw() ([]byte, error) {
	name, err := typeOf(ev.Raw)
	known := name == nestedName ||
		slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name })
	switch {
	case err != nil:
		return nil, fmt.Errorf("the Raw of an Other: %w", err)
	case name != ev.Type:
		return nil, fmt.Errorf("the Raw of an Other is of the type %q, not %q", name, ev.Type)
	case known:
		return nil, fmt.Errorf("an Other has the type %q, which is another one's", name)
	}
	return bytes.Clone(ev.Raw), nil
}
