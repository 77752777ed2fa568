package gotype

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
)

// hasOwnForm reports whether a type's JSON does not show what the type is made
// of.
func (w *walker) hasOwnForm(t reflect.Type) bool {
	switch t {
	case rawMessageType, numberType, timeType, bigIntType:
		return true
	}
	if describesItself(t) {
		return true
	}
	if w.dir == reading {
		return w.implements(t, jsonUnmarshaler) || w.implements(t, textUnmarshaler)
	}
	return w.implements(t, jsonMarshaler) || w.implements(t, textMarshaler)
}

// special returns the schema of a type that does not follow from its kind; nil
// for others.
func (w *walker) special(t reflect.Type, at string, addressable bool) (*jsontree.Object, error) {
	switch t {
	case rawMessageType:
		return &jsontree.Object{}, nil
	case numberType:
		return jsontree.New("type", "number"), nil
	case durationType:
		return jsontree.New("type", "integer", "description", schema.InNanoseconds), nil
	case timeType:
		return jsontree.New("type", "string", "format", "date-time"), nil
	}
	if w.dir == reading && t != bigIntType &&
		(w.implements(t, jsonUnmarshaler) || w.implements(t, textUnmarshaler)) {
		w.foreign = true
	}
	if describesItself(t) {
		s, ok := w.own[t]
		if !ok {
			var err error
			if s, err = w.described(t); err != nil {
				return nil, fmt.Errorf("%s%w", place(at), err)
			}
			w.own[t] = s
		}
		return s.Clone(), nil
	}
	if !addressable && w.dir == writing && !t.Implements(jsonMarshaler) &&
		!t.Implements(textMarshaler) &&
		(w.implements(t, jsonMarshaler) || w.implements(t, textMarshaler)) && t != bigIntType {
		return nil, fmt.Errorf(
			"%s%v encodes itself by a method of *%v, which encoding/json does not call for a "+
				"value in a map: use a pointer",
			place(at), t, t)
	}
	switch {
	case t == bigIntType:
		if !addressable && w.dir == writing {
			return nil, fmt.Errorf("%sencoding/json encodes a big.Int in a map as {}: use *big.Int",
				place(at))
		}
		return jsontree.New("type", "integer"), nil
	case w.dir == reading && w.implements(t, jsonUnmarshaler),
		w.dir == writing && w.implements(t, jsonMarshaler):
		return &jsontree.Object{}, nil // it may be anything
	case w.dir == reading && w.implements(t, textUnmarshaler),
		w.dir == writing && w.implements(t, textMarshaler):
		return jsontree.New("type", "string"), nil
	}
	return nil, nil
}

func (w *walker) implements(t, method reflect.Type) bool {
	return t.Implements(method) ||
		t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(method)
}

// bare returns the schema of a type that is no pointer, written out.
func (w *walker) bare(t reflect.Type, at string, addressable bool) (*jsontree.Object, error) {
	if s, err := w.special(t, at, addressable); s != nil || err != nil {
		return s, err
	}
	switch k := t.Kind(); k {
	case reflect.Bool:
		return jsontree.New("type", "boolean"), nil
	case reflect.String:
		return jsontree.New("type", "string"), nil
	case reflect.Float32, reflect.Float64:
		return w.float(k), nil
	case reflect.Struct:
		return w.structure(t, at, addressable)
	case reflect.Map:
		return w.mapping(t, at)
	case reflect.Slice, reflect.Array:
		return w.list(t, at, addressable)
	case reflect.Interface:
		if w.dir == reading && t.NumMethod() > 0 {
			return nil, fmt.Errorf("%sJSON can't be decoded into the interface %v", place(at), t)
		}
		w.dynamic = true
		return &jsontree.Object{}, nil
	default:
		if s := integer(k, t.Bits, w.exact); s != nil {
			return s, nil
		}
		return nil, fmt.Errorf("%sthe type %v has no JSON form", place(at), t)
	}
}

// integer returns the schema of an integer kind, with the bounds of up to 32
// bits. Those of 64 bits would mean little to a model, and are in the exact
// schema only.
func integer(k reflect.Kind, bits func() int, exact bool) *jsontree.Object {
	s := jsontree.New("type", "integer")
	signed := reflect.Int <= k && k <= reflect.Int64
	switch {
	case !signed && !(reflect.Uint <= k && k <= reflect.Uintptr):
		return nil
	case exact || bits() < 64:
		least, most := schema.IntegerBounds(signed, bits())
		s.Set("minimum", json.RawMessage(least))
		s.Set("maximum", json.RawMessage(most))
	case !signed:
		s.Set("minimum", 0)
	}
	return s
}

func (w *walker) float(k reflect.Kind) *jsontree.Object {
	s := jsontree.New("type", "number")
	if w.exact {
		most := schema.MaxFloat64
		if k == reflect.Float32 {
			most = schema.MaxFloat32
		}
		s.Set("minimum", json.RawMessage("-"+most))
		s.Set("maximum", json.RawMessage(most))
	}
	return s
}

func (w *walker) list(t reflect.Type, at string, addressable bool) (*jsontree.Object, error) {
	elem := t.Elem()
	if t.Kind() == reflect.Slice {
		addressable = true
		if elem.Kind() == reflect.Uint8 && !w.implements(elem, jsonMarshaler) &&
			!w.implements(elem, textMarshaler) {
			return jsontree.New("type", "string", "contentEncoding", "base64"), nil
		}
	}
	items, err := w.item(elem, at+"[]", addressable)
	if err != nil {
		return nil, err
	}
	s := jsontree.New("type", "array", "items", items)
	// encoding/json would drop surplus items, and not miss absent ones.
	if t.Kind() == reflect.Array {
		s.Set("minItems", t.Len())
		s.Set("maxItems", t.Len())
	}
	return s, nil
}

// mapping returns the schema of a map. An integer key has one form only, so
// that no two keys mean the same.
func (w *walker) mapping(t reflect.Type, at string) (*jsontree.Object, error) {
	values, err := w.item(t.Elem(), at+"[]", w.dir == reading)
	if err != nil {
		return nil, err
	}
	s := jsontree.New("type", "object")
	if len(values.Members) > 0 {
		s.Set("additionalProperties", values)
	}
	key := t.Key()
	byText := w.dir == writing && key.Implements(textMarshaler) ||
		w.dir == reading && reflect.PointerTo(key).Implements(textUnmarshaler)
	w.foreign = w.foreign || w.dir == reading && byText
	switch k := key.Kind(); {
	case k == reflect.String, byText:
	case reflect.Int <= k && k <= reflect.Int64, reflect.Uint <= k && k <= reflect.Uintptr:
		s.Set("propertyNames",
			jsontree.New("pattern", schema.KeyPattern(k <= reflect.Int64, key.Bits(), w.exact)))
	default:
		return nil, fmt.Errorf("%sa map with keys of type %v has no JSON form", place(at), key)
	}
	return s, nil
}
