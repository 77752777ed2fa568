package gotype

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
)

// differs compares a value with the one that was read back from its JSON, and
// returns where they first differ; "" if nowhere. It is less strict than
// reflect.DeepEqual where nothing is lost: a nil slice or map equals an empty
// one, and what encodes itself, such as a time.Time, is compared as it is
// encoded.
func differs(a, b reflect.Value, at string) string {
	if a.Kind() == reflect.Interface || a.Kind() == reflect.Pointer {
		return behind(a, b, at)
	}
	if a.CanInterface() && encodesItself(a) {
		x, errX := jsontree.Encode(addressable(a))
		y, errY := jsontree.Encode(addressable(b))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			return lost(at, a, b)
		}
		return ""
	}
	switch a.Kind() {
	case reflect.Struct:
		return fieldsDiffer(a, b, at)
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return lost(at, a, b)
		}
		for i := range a.Len() {
			if d := differs(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
	case reflect.Map:
		if a.Len() != b.Len() {
			return lost(at, a, b)
		}
		for it := a.MapRange(); it.Next(); {
			at := fmt.Sprintf("%s[%s]", at, excerpt.Of(fmt.Sprint(it.Key())))
			v := b.MapIndex(it.Key())
			if !v.IsValid() {
				return fmt.Sprintf("%sits key would come back as another one", place(at))
			}
			if d := differs(it.Value(), v, at); d != "" {
				return d
			}
		}
	default:
		// An empty Number is written as 0.
		if !a.Equal(b) && !(a.Type() == numberType && a.Len() == 0) {
			return lost(at, a, b)
		}
	}
	return ""
}

// behind compares what pointers or interfaces hold.
func behind(a, b reflect.Value, at string) string {
	switch {
	case a.IsNil() && b.IsNil():
		return ""
	case a.IsNil() != b.IsNil():
		return lost(at, a, b)
	}
	x, y := a.Elem(), b.Elem()
	if x.Type() != y.Type() {
		return fmt.Sprintf("%sa %v in an interface would come back as a %v: give the field a type",
			place(at), x.Type(), y.Type())
	}
	return differs(x, y, at)
}

func fieldsDiffer(a, b reflect.Value, at string) string {
	t := a.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		at := at + "." + f.Name
		hidden := !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct)
		switch {
		case f.Tag.Get("json") == "-", hidden && a.Field(i).IsZero():
		case hidden:
			return fmt.Sprintf("%sit is not exported, and would be lost", place(at))
		default:
			if d := differs(a.Field(i), b.Field(i), at); d != "" {
				return d
			}
		}
	}
	return ""
}

func lost(at string, a, b reflect.Value) string {
	return fmt.Sprintf("%s%s would come back as %s", place(at), display(a), display(b))
}

func display(v reflect.Value) string {
	if v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	return excerpt.Of(fmt.Sprintf("%v %+v", v.Type(), v))
}

// addressable returns a pointer to a copy of v, so that the methods of pointers
// are called.
func addressable(v reflect.Value) any {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}
