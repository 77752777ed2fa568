package tool

import (
	"context"
	"fmt"
)

// Func makes a tool of a typed function.
//
// # Schemas
//
// The schemas come from the types, unless the spec has them. Fields and their
// names are those of encoding/json. A field is required unless it is tagged
// omitempty or omitzero, is a pointer, or has a default; a pointer takes null.
// The tag jsonschema adds to that: jsonschema:"City name" describes a field,
// jsonschema:"description=How many days,minimum=1,maximum=10" bounds it too.
// The keywords are title, description, type, format, enum and example (both may
// be repeated), const, default, pattern, minLength, maxLength, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minItems, maxItems,
// minProperties, maxProperties, and the flags uniqueItems, deprecated,
// required, nullable. A comma inside of a value is written \, where a keyword
// follows it, and anywhere in an enum; a keyword twice is an error. A type may
// describe itself, by a method JSONSchema() of github.com/invopop/jsonschema. A
// type or a tag that would not give a right schema is an error of construction
// that names the field.
//
// In a schema of results, slices and maps take null too, since that is what
// encoding/json makes of nil ones. In arguments and answers null is taken for
// them as well, as length 0: a person's program, or another tool's output, may
// have made it. Models are told neither that nor the bounds of 64-bit numbers,
// which are checked all the same.
//
// # Arguments
//
// Arguments are checked as raw JSON, then decoded; what does not fit never
// reaches f. If the JSON of In is no object (string, []Item, time.Time), the
// model is asked for {"value": ...}, and f gets the value. An In of any or
// json.RawMessage takes every object. Numbers in an interface are json.Number,
// which is exact. An absent field that has a default gets it. Models now and
// then write a string where a list or an object is wanted: it is decoded once
// more, if that fits.
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
		return execution(f(ctx, *in))
	}
	return t, nil
}

// Must returns v, a [Tool] or an [Event], or panics if err is not nil. It is
// for package variables.
func Must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
