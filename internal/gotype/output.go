package gotype

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Output is how the JSON of an Out is described.
type Output struct {
	Told  json.RawMessage // the schema that models are told; empty: it takes everything
	Exact json.RawMessage // the one that outputs are checked against
	// Total: whatever the type encodes to fits the schema, so that it needs no
	// check.
	Total bool
	// Reader reads an output again; nil where what is written need not be what
	// can be read.
	Reader *Reader
}

// NewOutput infers the schemas of Out, unless one is given: then that is both.
func NewOutput[Out any](given json.RawMessage) (Output, error) {
	out, err := inferOutput(reflect.TypeFor[Out]())
	isGiven := !schema.IsNull(given)
	if err != nil && !(isGiven && errors.Is(err, jsontree.ErrTooLarge)) {
		return Output{}, err
	}
	switch {
	case isGiven:
		if out.schema, err = schema.GivenOutput(given); err != nil {
			return Output{}, err
		}
		out.exact = out.schema
	case out.open:
		out.schema, out.exact = nil, nil
	}
	_, err = schema.Compile(out.exact)
	return Output{Told: out.schema, Exact: out.exact, Total: !isGiven && !out.tight,
		Reader: outputReader[Out]()}, err
}

func outputReader[Out any]() *Reader {
	t := reflect.TypeFor[Out]()
	in, err := infer(reading, t)
	if err != nil || !readsWhatItWrites(t, map[reflect.Type]bool{}) {
		return nil
	}
	in.defaults = nil
	d := newDecoding(t, in, false)
	return &Reader{foreign: in.foreign, read: func(doc strictjson.Doc) error {
		_, err := decode[Out](&d, doc, nil)
		return err
	}}
}
