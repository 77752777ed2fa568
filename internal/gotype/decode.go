package gotype

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// decoding is how a type is read from JSON that its schema has taken.
type decoding struct {
	typ      reflect.Type
	conforms *conformer
	always   bool // the text must be conformed each time
	// numbers: there are interfaces in the type. Numbers in them are
	// json.Number, since a float64 is not exact.
	numbers bool
	known   bool // unknown fields are an error
	foreign bool // methods of the type, or of types in it, read it, and may keep the text
}

// newDecoding returns the decoding of a type. A schema that was given may take
// values that the type's own would not.
func newDecoding(t reflect.Type, in inferred, given bool) decoding {
	return decoding{
		typ: t, conforms: newConformer(t, in.defaults),
		always: given || len(in.defaults) > 0, numbers: in.dynamic, foreign: in.foreign,
	}
}

// decode reads a T of a document. A document whose root is nil was not parsed;
// it is parsed only where that is needed. Lent, if set, is the document's text,
// which belongs to the caller. The error is a *misfit.Error.
func decode[T any](d *decoding, doc strictjson.Doc, lent []byte) (*T, error) {
	if d.always {
		conformed, err := d.conforms.conform(doc, d.typ)
		if err != nil {
			return nil, unreadable(err)
		}
		lent = []byte(conformed)
	}
	if lent == nil || d.foreign && !d.always {
		lent = []byte(doc.Text)
	}
	v := new(T)
	err := d.into(v, lent)
	if err != nil && !d.always && isNumberError(err) {
		if doc.Root == nil {
			// If that fails, nothing is rewritten.
			doc, _ = strictjson.Parse(doc.Text, strictjson.Strict(true))
		}
		if conformed, cerr := d.conforms.conform(doc, d.typ); cerr == nil {
			v = new(T) // the failed attempt may have set parts of the first
			err = d.into(v, []byte(conformed))
		}
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return v, nil
}

func isNumberError(err error) bool {
	var wrong *json.UnmarshalTypeError
	return errors.As(err, &wrong) && strings.HasPrefix(wrong.Value, "number")
}

// into decodes a text once. Methods of the value's type may keep it.
func (d *decoding) into(v any, text []byte) error {
	if !d.numbers && !d.known {
		return json.Unmarshal(text, v)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if d.numbers {
		dec.UseNumber()
	}
	if d.known {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the end of the JSON value")
	}
	return nil
}

// unreadable returns an error of encoding/json, or of a type's own method, in
// words for a model.
func unreadable(err error) *misfit.Error {
	var already *misfit.Error
	var other *misnamed
	var wrong *json.UnmarshalTypeError
	f := misfit.Fault{Rule: "decode"}
	switch {
	case errors.As(err, &already):
		return already
	case errors.As(err, &other):
		f = misfit.Fault{Path: schema.Pointer(inward(other.path)), Rule: "additionalProperties",
			Message: other.Error()}
	case errors.As(err, &wrong):
		if wrong.Field != "" {
			f.Path = schema.Pointer(strings.Split(wrong.Field, "."))
		}
		f.Message = fmt.Sprintf("must be %s, and is a %s",
			words(wrong.Type), excerpt.Of(wrong.Value))
	default:
		f.Message = "it can't be read: " +
			excerpt.InBrief(strings.TrimPrefix(err.Error(), "json: "))
	}
	return &misfit.Error{Faults: []misfit.Fault{f}}
}

// words returns the kind of JSON that a Go type is read from, in words.
func words(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch k := target(t).Kind(); {
	case reflect.Int <= k && k <= reflect.Int64:
		n := target(t).Bits()
		return fmt.Sprintf("a whole number from %d to %d", -1<<(n-1), uint64(1)<<(n-1)-1)
	case reflect.Uint <= k && k <= reflect.Uintptr:
		return fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-target(t).Bits()))
	case k == reflect.Float32:
		return "a number up to 3.4e38"
	case k == reflect.Float64:
		return "a number up to 1.7e308"
	}
	return "what " + t.String() + " is read from"
}
