package gotype

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
)

// Encode encodes *v. It takes a pointer so that encoding/json calls the methods
// of pointers, too. An empty RawMessage is null. The error names the field that
// can't be encoded.
func Encode[T any](v *T) (json.RawMessage, error) {
	if raw, ok := any(*v).(json.RawMessage); ok && len(raw) == 0 {
		return json.RawMessage("null"), nil
	}
	text, err := jsontree.Encode(v)
	if err == nil {
		return text, nil
	}
	at, cause := culprit(reflect.ValueOf(v).Elem(), "", err, 0)
	var m *json.MarshalerError
	if errors.As(cause, &m) {
		cause = m.Unwrap()
	}
	return nil, fmt.Errorf("%s%w", place(at), cause)
}

const maxSearch = 100 // levels at which a culprit is looked for: a cycle has no end

// culprit returns the place and the error of the innermost part of v that can't
// be encoded; err is that of v.
func culprit(v reflect.Value, at string, err error, depth int) (string, error) {
	if depth == maxSearch || !v.IsValid() || encodesItself(v) {
		return at, err
	}
	inner := func(part reflect.Value, at string) (string, error, bool) {
		if !part.IsValid() || !part.CanInterface() {
			return "", nil, false
		}
		x := part.Interface()
		if part.CanAddr() {
			x = part.Addr().Interface()
		}
		if _, err := jsontree.Encode(x); err != nil {
			at, err = culprit(part, at, err, depth+1)
			return at, err, true
		}
		return "", nil, false
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return culprit(v.Elem(), at, err, depth+1)
	case reflect.Struct:
		for _, f := range jsonFields(v.Type()) {
			part, ferr := v.FieldByIndexErr(f.index)
			if ferr != nil || f.omit && part.IsZero() {
				continue
			}
			if at, err, found := inner(part, at+"."+f.goName); found {
				return at, err
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if at, err, found := inner(v.Index(i), at+"["+strconv.Itoa(i)+"]"); found {
				return at, err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if at, err, found := inner(it.Value(),
				fmt.Sprintf("%s[%s]", at, excerpt.Of(fmt.Sprint(it.Key())))); found {
				return at, err
			}
		}
	}
	return at, err
}

// encodesItself reports whether a value's own method makes its JSON.
func encodesItself(v reflect.Value) bool {
	t := v.Type()
	if t.Kind() == reflect.Interface {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}
