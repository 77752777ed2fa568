package gotype

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Answer is how the answer to a question becomes a Choice.
type Answer[Choice any] struct {
	Exact json.RawMessage // the schema that answers are checked against

	check    *schema.Schema
	decoding decoding
	foreign  bool
}

// NewAnswer infers the schema of Choice.
func NewAnswer[Choice any]() (*Answer[Choice], error) {
	typ := reflect.TypeFor[Choice]()
	in, err := inferAnswer(typ)
	if err != nil {
		return nil, err
	}
	check, err := schema.Compile(in.exact)
	if err != nil {
		return nil, err
	}
	return &Answer[Choice]{in.exact, check, newDecoding(typ, in, false), in.foreign}, nil
}

// Fit returns an answer in the form that it is read in, if it fits the schema:
// see [schema.Schema.Arguments].
func (a *Answer[Choice]) Fit(payload json.RawMessage) (strictjson.Doc, error) {
	return a.check.Arguments(payload)
}

// Read decodes an answer that fits. A panic of a method of its type is an
// error.
func (a *Answer[Choice]) Read(d strictjson.Doc) (choice *Choice, err error) {
	defer func() {
		if recover() != nil {
			err = unusable("panicked")
		}
	}()
	return decode[Choice](&a.decoding, d, nil)
}

// Reader reads answers.
func (a *Answer[Choice]) Reader() *Reader {
	return &Reader{derives: a.check, foreign: a.foreign, read: func(d strictjson.Doc) error {
		_, err := decode[Choice](&a.decoding, d, nil)
		return err
	}}
}

// State is how a State is kept with a question, and read again.
type State[S any] struct{ decoding decoding }

// NewState checks that S has a JSON form in both directions.
func NewState[S any]() (*State[S], error) {
	t := reflect.TypeFor[S]()
	if _, err := infer(writing, t); err != nil && !errors.Is(err, jsontree.ErrTooLarge) {
		return nil, err
	}
	kept, err := infer(reading, t)
	if errors.Is(err, jsontree.ErrTooLarge) {
		kept, err = inferred{dynamic: true}, nil
	}
	if err != nil {
		return nil, err
	}
	kept.defaults = nil // of no use to what a program stores for itself
	s := &State[S]{newDecoding(t, kept, false)}
	s.decoding.known = true
	return s, nil
}

// Write encodes a state. One that would come back as another is an error that
// names the field.
func (s *State[S]) Write(state *S) (json.RawMessage, error) {
	data, err := Encode(state)
	if err != nil {
		return nil, err
	}
	back, err := s.Read(data)
	if err != nil {
		return nil, fmt.Errorf("it would not be read back: %w", err)
	}
	if why := differs(reflect.ValueOf(state).Elem(), reflect.ValueOf(back).Elem(), ""); why != "" {
		return nil, errors.New(why)
	}
	return data, nil
}

// Read decodes a state that Write has made.
func (s *State[S]) Read(data json.RawMessage) (*S, error) {
	return decode[S](&s.decoding, strictjson.Doc{Text: string(data)}, nil)
}
