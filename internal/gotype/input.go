// Package gotype has the JSON of Go types: the schemas that describe it, and
// how values are read and written so that schema and type agree.
//
// A type has two schemas: the one that models are told, and the exact one,
// which values are checked against. Reading and writing are encoding/json's,
// behind a strict parse.
//
// It knows no tools and no calls. Package schema checks values.
package gotype

// Where things are: the nouns are input.go, output.go, question.go (states and
// answers) and reader.go; inference is schema.go, then infer.go, kinds.go,
// structure.go, fields.go, tags.go and refs.go; between JSON and Go stand
// decode.go, conform.go, encode.go and differs.go.

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Input is how arguments, which are an object, become an In.
type Input[In any] struct {
	Told  json.RawMessage // the schema that models are told
	Exact json.RawMessage // the one that arguments are checked against
	Check *schema.Schema  // of Exact

	foreign bool
	read    func(args strictjson.Doc, lent []byte) (*In, error)
}

// NewInput infers the schemas of In, unless one is given: then that is both. If
// the JSON of In is no object, it stands in {"value": ...}.
func NewInput[In any](given json.RawMessage) (*Input[In], error) {
	typ := reflect.TypeFor[In]()
	in, err := inferInput(typ)
	isGiven := !schema.IsNull(given)
	switch {
	case isGiven && errors.Is(err, jsontree.ErrTooLarge):
		in = inferred{dynamic: true, foreign: true, wrapped: !isComposite(typ)}
	case err != nil:
		return nil, err
	}
	if isGiven {
		if in.schema, err = schema.GivenInput(given); err != nil {
			return nil, err
		}
		in.exact = in.schema
	}
	i := &Input[In]{Told: in.schema, Exact: in.exact, foreign: in.foreign}
	if i.Check, err = schema.Compile(in.exact); err != nil {
		return nil, err
	}
	if !in.wrapped {
		d := newDecoding(typ, in, isGiven)
		i.read = func(doc strictjson.Doc, lent []byte) (*In, error) {
			return decode[In](&d, doc, lent)
		}
		return i, nil
	}
	if !i.Check.HasProperty("value") {
		return nil, fmt.Errorf(
			`the JSON of %v is no object: the schema must ask for it as the property "value"`, typ)
	}
	d := newDecoding(reflect.TypeFor[valued[In]](), in, isGiven)
	i.read = func(doc strictjson.Doc, lent []byte) (*In, error) {
		v, err := decode[valued[In]](&d, doc, lent)
		if err != nil {
			return nil, err
		}
		return &v.Value, nil
	}
	return i, nil
}

// valued is the form in which a model is asked for a value that is no object.
type valued[In any] struct {
	Value In `json:"value"`
}

func isComposite(t reflect.Type) bool {
	k := target(t).Kind()
	return k == reflect.Struct || k == reflect.Map
}

// Read decodes arguments that fit. It may run methods of the user's types. Lent
// is the text of args, which stays the caller's: it saves a copy.
func (i *Input[In]) Read(args strictjson.Doc, lent []byte) (*In, error) {
	return i.read(args, lent)
}

// Reader reads edited arguments.
func (i *Input[In]) Reader() *Reader {
	return &Reader{derives: i.Check, foreign: i.foreign, read: func(d strictjson.Doc) error {
		_, err := i.read(d, nil)
		return err
	}}
}
