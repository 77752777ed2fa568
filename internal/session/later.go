package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// later is what a later version wrote into a part of a head, and this one doesn't know: fields by their names.
type later struct {
	fields map[string]json.RawMessage
}

func (l *later) keep(fields map[string]json.RawMessage) { l.fields = fields }
func (l *later) kept() map[string]json.RawMessage       { return l.fields }

// keeper is a part of a head that embeds later.
type keeper interface {
	keep(map[string]json.RawMessage)
	kept() map[string]json.RawMessage
}

// keepLater goes over an object that is not, byte for byte, what this version writes of v, which was read from it. Fields that a
// later version added are kept. Anything else is damage, since no version writes it: a field that is there twice, is null, is
// missing though it is always written, or has a name that encoding/json takes for another one.
func keepLater(b json.RawMessage, v reflect.Value) error {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return errors.New("a part of it is null")
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice && isObject(v.Type().Elem()):
		var items []json.RawMessage
		if err := json.Unmarshal(b, &items); err != nil {
			return err
		}
		for i := range items {
			if err := keepLater(items[i], v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case !isObject(v.Type()):
		return nil
	}
	known := map[string]reflect.Value{}
	required := map[string]bool{}
	fields(v, known, required)
	given, err := members(b)
	if err != nil {
		return err
	}
	var extra map[string]json.RawMessage
	for name, raw := range given {
		f, isKnown := known[name]
		switch {
		case isKnown && string(raw) == "null" && f.Type() != reflect.TypeFor[json.RawMessage]():
			return fmt.Errorf("its %q is null", name)
		case isKnown:
			if err := keepLater(raw, f); err != nil {
				return err
			}
			delete(required, name)
			continue
		}
		for other := range known {
			if strings.EqualFold(name, other) {
				return fmt.Errorf("it has %q, which is not %q", name, other)
			}
		}
		if extra == nil {
			extra = map[string]json.RawMessage{}
		}
		extra[name] = raw
	}
	for name := range required {
		return fmt.Errorf("it has no %q", name)
	}
	if k, ok := v.Addr().Interface().(keeper); ok {
		k.keep(extra)
	}
	return nil
}

// isObject says that values of a type are stored as objects with the fields of a struct.
func isObject(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]())
}

// fields lists the fields of a struct by their names in JSON, and those that are always written.
func fields(v reflect.Value, known map[string]reflect.Value, required map[string]bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			fields(v.Field(i), known, required)
		case name != "":
			known[name] = v.Field(i)
			required[name] = !strings.Contains(options, "omit")
			if !required[name] {
				delete(required, name)
			}
		}
	}
}

// members takes an object apart.
func members(b json.RawMessage) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil { // the brace: b was decoded before
		return nil, err
	}
	all := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		if _, twice := all[name.(string)]; twice {
			return nil, fmt.Errorf("it has %q twice", name)
		}
		all[name.(string)] = raw
	}
	return all, nil
}
