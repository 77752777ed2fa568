package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// typed is a tool whose types were erased when it was made.
type typed struct {
	spec Spec
	// exact are the schemas that arguments, outputs and answers are checked
	// against: the spec's, where those were given.
	exact checks
	input *schema.Schema // of exact.input
	// total: whatever Out encodes to fits the spec's Output, so that it needs
	// no check.
	total bool
	reads readers
	// questions are those of a Resumable, by their names.
	questions map[string]questionReads
	// decode makes a *In of arguments that fit the schema, and are lent as they
	// came.
	decode func(args strictjson.Doc, lent []byte) (in any, err error)
	body   func(ctx context.Context, call Call) (Execution, error)
}

// checks are the schemas that a tool's arguments and outputs have to fit. They
// hold more than models are told: see [Func].
type checks struct{ input, output json.RawMessage }

// readers read what comes from outside as the tool will. A reader is nil where
// it isn't known how the tool reads.
type readers struct{ arguments, output *gotype.Reader }

func (t *typed) Spec() Spec { return t.spec.clone() }

// Execute runs the function. Arguments that were checked are not checked again.
func (t *typed) Execute(ctx context.Context, call Call) (Execution, error) {
	call, err := call.checkedBy(t.input, nil)
	if err != nil {
		return Execution{}, invalidArguments(t.spec.Name, err)
	}
	return t.body(WithCall(ctx, call), call)
}

// decoded returns what decode does, and makes a panic an error: decode may run
// methods of the user's types.
func (t *typed) decoded(args strictjson.Doc, lent []byte) (in any, err error) {
	defer recovered(t.spec.Name, &err)
	return t.decode(args, lent)
}

// newTyped returns all of a tool but its body, and how a call that was checked
// becomes an In.
func newTyped[In, Out any](s Spec) (t *typed, read func(Call) (*In, error), err error) {
	if err := checkName(s.Name); err != nil {
		return nil, nil, fmt.Errorf("tool: %w", err)
	}
	in, err := gotype.NewInput[In](s.Input)
	if err != nil {
		return nil, nil, fmt.Errorf("tool %q: input: %w", s.Name, err)
	}
	out, err := gotype.NewOutput[Out](s.Output)
	if err != nil {
		return nil, nil, fmt.Errorf("tool %q: output: %w", s.Name, err)
	}
	s.Input, s.Output = in.Told, out.Told
	t = &typed{
		spec: s, exact: checks{input: in.Exact, output: out.Exact}, input: in.Check,
		total:  out.Total,
		reads:  readers{arguments: in.Reader(), output: out.Reader},
		decode: func(args strictjson.Doc, lent []byte) (any, error) { return in.Read(args, lent) },
	}
	read = func(call Call) (*In, error) {
		if in, ok := call.take(t); ok {
			return in.(*In), nil
		}
		v, err := in.Read(call.checked.doc, nil)
		if err != nil {
			err = invalidArguments(s.Name, err)
		}
		return v, err
	}
	return t, read, nil
}
