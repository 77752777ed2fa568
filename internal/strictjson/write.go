package strictjson

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Append appends a record's JSON: its fields in their order, without white
// space. A json.RawMessage is checked to be JSON, and goes out as it is. On an
// error, b is returned as it was.
func Append(b []byte, record any) ([]byte, error) {
	v := reflect.ValueOf(record)
	if v.Kind() != reflect.Pointer {
		v = reflect.New(v.Type())
		v.Elem().Set(reflect.ValueOf(record))
	}
	out, err := appendValue(b, v.Elem(), shapeOf(v.Type().Elem()))
	if err != nil {
		return b, err
	}
	return out, nil
}

// appendValue appends a value that has an address.
func appendValue(b []byte, v reflect.Value, s *shape) ([]byte, error) {
	switch s.kind {
	case raw:
		value := v.Bytes()
		if err := Check(value); err != nil {
			return b, err
		}
		return append(b, value...), nil
	case text:
		return AppendString(b, v.String()), nil
	case integer:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case natural:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case boolean:
		return strconv.AppendBool(b, v.Bool()), nil
	case pointer:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendValue(b, v.Elem(), s.elem)
	case list:
		return appendList(b, v, s)
	case object:
		return appendObject(b, v, s)
	}
	if t, ok := v.Addr().Interface().(encoding.TextAppender); ok {
		return appendText(b, t)
	}
	out, err := json.Marshal(v.Addr().Interface(), tolerant, json.Deterministic(true))
	return append(b, out...), err
}

func appendList(b []byte, v reflect.Value, s *shape) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v.Index(i), s.elem); err != nil {
			return b, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, v reflect.Value, s *shape) (_ []byte, err error) {
	b = append(b, '{')
	comma := false
	for i := range s.fields {
		f := &s.fields[i]
		at := v.FieldByIndex(f.index)
		if f.omits(at) {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		if b, err = appendValue(append(b, f.key...), at, f.shape); err != nil {
			return b, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if s.rest >= 0 {
		if rest := v.Field(s.rest).Bytes(); len(rest) > 0 {
			if comma {
				b = append(b, ',')
			}
			b = append(b, rest...)
		}
	}
	return append(b, '}'), nil
}

// omits reports whether the field is left out.
func (f *field) omits(v reflect.Value) bool {
	switch f.optional {
	case whenZero:
		return v.IsZero()
	case whenSaysZero:
		return v.Addr().Interface().(zeroer).IsZero()
	case whenEmpty:
		return v.Len() == 0
	}
	return false
}

// appendText appends the text of a type that makes its own, such as a time.
func appendText(b []byte, t encoding.TextAppender) ([]byte, error) {
	at := len(b)
	b, err := t.AppendText(append(b, '"'))
	if err != nil {
		return b, err
	}
	for _, c := range b[at+1:] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return AppendString(b[:at], bytes.Clone(b[at+1:])), nil
		}
	}
	return append(b, '"'), nil
}
