package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// Func makes a tool of a typed function.
//
// # Schemas
//
// The schemas come from the types, unless the spec has them. Fields and their
// names are those of encoding/json. A field is required unless it is tagged
// omitempty or omitzero, is a pointer, or has a default; a pointer takes null.
// The tag jsonschema says more: jsonschema:"City name" describes a field,
// jsonschema:"description=How many days,minimum=1,maximum=10" bounds it too;
// the keywords are title, description, type, format, enum and example (both may
// be repeated), const, default, pattern, minLength, maxLength, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minItems, maxItems,
// minProperties, maxProperties, and the flags uniqueItems, deprecated,
// required, nullable. A comma inside of a value is written \, where a keyword
// follows it, and anywhere in an enum; a keyword twice is an error. A type may
// describe itself, by a method JSONSchema() of github.com/invopop/jsonschema.
// What would not give a right schema is an error of construction that names the
// field.
//
// In a schema of results, slices and maps take null too, since that is what
// encoding/json makes of nil ones. In arguments and answers null is taken for
// them as well, as length 0: a person's program, or another tool's output, may
// have made it. Models aren't told that; nor are they told the bounds of 64-bit
// numbers, which are checked all the same.
//
// # Arguments
//
// Arguments are checked as raw JSON, then decoded; what does not fit never
// reaches f. An In whose JSON is no object (string, []Item, time.Time) is asked
// of the model as {"value": ...}, and f gets the value. An In of any or
// json.RawMessage takes every object. Numbers in an interface are json.Number,
// which is exact. An absent field that has a default gets it. A string where a
// list or an object is wanted, as models write now and then, is decoded once
// more if that fits: see [Schema.Arguments].
//
// # Results
//
// See [Result]. Out may be of any type that has a JSON form.
func Func[In, Out any](s Spec, f func(context.Context, In) (Result[Out], error)) (Tool, error) {
	if f == nil {
		return nil, fmt.Errorf("tool %q: the function is nil", s.Name)
	}
	t, read, err := newTyped[In, Out](s)
	if err != nil {
		return nil, err
	}
	t.body = func(ctx context.Context, call Call) (Execution, error) {
		in, err := read(call)
		if err != nil {
			return Execution{}, err
		}
		return settle(f(ctx, *in))
	}
	return t, nil
}

// Must is for package variables: it panics on an error of construction.
func Must(t Tool, err error) Tool {
	if err != nil {
		panic(err)
	}
	return t
}

// typed is a tool whose types were erased when it was made.
type typed struct {
	spec Spec
	// exact are the schemas that arguments and outputs are checked against: the
	// spec's, where those were given.
	exact struct{ input, output, answer json.RawMessage }
	input *Schema // of exact.input
	// foreign: methods of In, or of types in it, read the arguments.
	foreign bool
	// total: whatever Out encodes to fits the spec's Output, so that it needs
	// no check.
	total bool
	// How what comes from outside is read: edited arguments; answers, of a
	// Resumable; answers that are the output. Nil where it isn't known.
	arguments, answers, outputs *reader
	// decode makes a *In of arguments that fit the schema.
	decode func(args json.RawMessage) (in any, err error)
	body   func(ctx context.Context, call Call) (Execution, error)
}

func (t *typed) Spec() Spec { return t.spec.Clone() }

// decoded is decode, which may run code of the user's.
func (t *typed) decoded(args json.RawMessage) (in any, err error) {
	defer recovered(t.spec.Name, &err)
	return t.decode(args)
}

// Execute runs the function. Arguments that a Registry has checked are not checked again.
func (t *typed) Execute(ctx context.Context, call Call) (Execution, error) {
	call = call.withArguments()
	if !call.isChecked() {
		var err error
		if call.Arguments, err = t.input.Arguments(call.Arguments); err != nil {
			return Execution{}, invalidArguments(t.spec.Name, err)
		}
	}
	return t.body(WithCall(ctx, call), call)
}

// newTyped makes all of a tool but its body, and says how arguments become an In.
func newTyped[In, Out any](s Spec) (t *typed, read func(Call) (*In, error), err error) {
	if err := checkName(s.Name); err != nil {
		return nil, nil, fmt.Errorf("tool: %w", err)
	}
	t = &typed{spec: s}
	decode, err := readInput[In](t)
	if err != nil {
		return nil, nil, fmt.Errorf("tool %q: input: %w", s.Name, err)
	}
	if plain := decode; t.foreign { // encoding/json hands such methods parts of the very text
		decode = func(args json.RawMessage) (*In, error) { return plain(bytes.Clone(args)) }
	}
	read = func(call Call) (*In, error) {
		if in, ok := call.take(t); ok {
			return in.(*In), nil
		}
		in, err := decode(call.Arguments)
		if err != nil {
			err = invalidArguments(s.Name, err)
		}
		return in, err
	}
	if err = t.makeOutput(reflect.TypeFor[Out]()); err != nil {
		return nil, nil, fmt.Errorf("tool %q: output: %w", s.Name, err)
	}
	t.outputs = newOutputs[Out]()
	t.decode = func(args json.RawMessage) (any, error) { return decode(args) }
	t.arguments = &reader{foreign: t.foreign, read: func(args json.RawMessage) error { _, err := decode(args); return err }}
	return t, read, nil
}

// valued is the form in which a model is asked for what is no object.
type valued[In any] struct {
	Value In `json:"value"`
}

func readInput[In any](t *typed) (func(json.RawMessage) (*In, error), error) {
	typ := reflect.TypeFor[In]()
	in, err := inferInput(typ)
	given := !isNull(t.spec.Input)
	switch {
	case given && errors.Is(err, jsontree.ErrTooLarge):
		in = inferred{dynamic: true, foreign: true, wrapped: !isComposite(typ)}
	case err != nil:
		return nil, err
	}
	if given {
		if in.schema, err = givenInput(t.spec.Input); err != nil {
			return nil, err
		}
		in.exact = in.schema
	}
	t.spec.Input, t.exact.input, t.foreign = in.schema, in.exact, in.foreign
	if t.input, err = compileSchema(in.exact); err != nil {
		return nil, err
	}
	if !in.wrapped {
		d := newDecoding(typ, in, given)
		return func(args json.RawMessage) (*In, error) { return decode[In](&d, args) }, nil
	}
	if _, ok := lookup(t.input.doc, []string{"properties", "value"}); !ok {
		return nil, fmt.Errorf(`the JSON of %v is no object: the schema must ask for it as the property "value"`, typ)
	}
	d := newDecoding(reflect.TypeFor[valued[In]](), in, given)
	return func(args json.RawMessage) (*In, error) {
		v, err := decode[valued[In]](&d, args)
		if err != nil {
			return nil, err
		}
		return &v.Value, nil
	}, nil
}

func isComposite(t reflect.Type) bool {
	k := target(t).Kind()
	return k == reflect.Struct || k == reflect.Map
}

func (t *typed) makeOutput(typ reflect.Type) error {
	out, err := inferOutput(typ)
	given := !isNull(t.spec.Output)
	switch {
	case given && errors.Is(err, jsontree.ErrTooLarge):
	case err != nil:
		return err
	}
	switch {
	case given:
		if out.schema, err = givenOutput(t.spec.Output); err != nil {
			return err
		}
		out.exact = out.schema
	case out.open:
		out.schema, out.exact = nil, nil
	}
	t.spec.Output, t.exact.output = out.schema, out.exact
	t.total = !given && !out.tight
	_, err = compileSchema(out.exact)
	return err
}
