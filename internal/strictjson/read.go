package strictjson

import (
	"bytes"
	"math/bits"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Rest is a field of a record with the members that this version doesn't know,
// as they came, with commas between them. They are written after those that it
// knows. A record without one loses them.
type Rest []byte

// Read reads a record, which is a pointer, from what some version of [Append]
// wrote. What no version writes is an error: a member that is there twice, is
// null, is missing though it is always written, or has a name that differs
// from a field's by case alone. What json.RawMessage fields get is their own,
// and may be null. The error is an [*Error].
func Read(b []byte, record any) error { return readAll(b, record, reader{}) }

// ReadClosed reads a record that others write by hand: a member that it doesn't
// know, at any depth, is an error too.
func ReadClosed(b []byte, record any) error { return readAll(b, record, reader{closed: true}) }

func readAll(b []byte, record any, r reader) error {
	v := reflect.ValueOf(record).Elem()
	s := shapeOf(v.Type())
	return decode(b, func(d *jsontext.Decoder) error { return r.read(d, v, s) })
}

// reader reads a record.
type reader struct{ closed bool }

func (r reader) read(d *jsontext.Decoder, v reflect.Value, s *shape) error {
	if s.kind != raw && d.PeekKind() == 'n' {
		return fail(d, "a value is null")
	}
	switch s.kind {
	case raw:
		value, err := d.ReadValue()
		v.SetBytes(bytes.Clone(value))
		return err
	case pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return r.read(d, v.Elem(), s.elem)
	case list:
		return r.readList(d, v, s)
	case object:
		return r.readObject(d, v, s)
	}
	return json.UnmarshalDecode(d, v.Addr().Interface())
}

// enter passes the token that an object or an array begins with.
func enter(d *jsontext.Decoder, open jsontext.Kind) error {
	if k := d.PeekKind(); k != open && k != 0 {
		return fail(d, "a %s stands where a %s is expected", k, open)
	}
	_, err := d.ReadToken()
	return err
}

func (r reader) readList(d *jsontext.Decoder, v reflect.Value, s *shape) error {
	if err := enter(d, '['); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 4))
	for n := 0; d.PeekKind() != ']'; n++ {
		v.Grow(1)
		v.SetLen(n + 1)
		if err := r.read(d, v.Index(n), s.elem); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (r reader) readObject(d *jsontext.Decoder, v reflect.Value, s *shape) error {
	if err := enter(d, '{'); err != nil {
		return err
	}
	var seen uint64 // the fields that were there
	others := names{exact: true}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			name = AppendString(nil, Unquote(name))
		}
		i, known := s.names[string(name[1:len(name)-1])]
		if !known {
			if err = r.readOther(d, Unquote(name), v, s, &others); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if seen&(1<<i) != 0 {
			return fail(d, "the member %q is there twice", f.name)
		}
		seen |= 1 << i
		if err := r.read(d, v.FieldByIndex(f.index), f.shape); err != nil {
			return err
		}
	}
	if missing := s.always &^ seen; missing != 0 {
		return fail(d, "the member %q is missing", s.fields[bits.TrailingZeros64(missing)].name)
	}
	_, err := d.ReadToken()
	return err
}

// readOther reads a member that is no field's, and whose name was read. Others
// are the names of those before it.
func (r reader) readOther(
	d *jsontext.Decoder, name string, v reflect.Value, s *shape, others *names,
) error {
	for i := range s.fields {
		if strings.EqualFold(s.fields[i].name, name) {
			return fail(d, "the member %q is not %q", name, s.fields[i].name)
		}
	}
	if _, twice := others.alike(name); twice {
		return fail(d, "the member %q is there twice", name)
	}
	if r.closed {
		return fail(d, "there is no member %.100q", name)
	}
	value, err := d.ReadValue()
	if err != nil || s.rest < 0 {
		return err
	}
	rest := v.Field(s.rest)
	b := rest.Bytes()
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = append(AppendString(b, name), ':')
	rest.SetBytes(append(b, value...))
	return nil
}
