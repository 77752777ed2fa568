package tool

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Use is what a value that came from outside is for.
type Use string

// The uses.
const (
	AsArguments Use = "arguments" // edited ones, in place of the model's
	AsAnswer    Use = "answer"    // the tool is entered again with it
	AsOutput    Use = "output"    // it is the call's output
)

// reader decodes a value as the tool will, and drops it.
type reader struct {
	read    func(json.RawMessage) error
	foreign bool    // methods of the value's type, or of types in it, read it
	derives *Schema // as of an entry
}

func newReader[T any](d *decoding, derives *Schema, foreign bool) *reader {
	return &reader{derives: derives, foreign: foreign, read: func(value json.RawMessage) error {
		_, err := decode[T](d, value)
		return err
	}}
}

// Judge returns why the tool called name can't use a value, which has fitted
// the schema that was stored for it: nil where it can, and where that isn't
// known. Arguments, and answers to a Resumable, have to fit the tool's schema of
// today, too, and are read in the form that the tool is given. Where methods of
// the value's type read it, they get a second; few do at once; and what they have
// not said by then counts for nothing.
func (r *Registry) Judge(name string, use Use, value json.RawMessage) error {
	e, ok := r.entries[name]
	if !ok {
		return nil
	}
	if s := e.derives(use); s != nil {
		var err error
		if value, err = s.Arguments(value); err != nil {
			return err
		}
	}
	reads := e.reader(use)
	switch {
	case reads == nil:
		return nil
	case reads.foreign:
		return inASecond(reads.read, bytes.Clone(value)) // which may be kept for longer than it is ours
	}
	return reads.read(value)
}

// JudgesByMethods reports whether Judge runs code of the user's.
func (r *Registry) JudgesByMethods(name string, use Use) bool {
	e, ok := r.entries[name]
	return ok && e.reader(use) != nil && e.reader(use).foreign
}

// Derived returns edited arguments in the form that the tool called name is
// given them; as they are, if they don't fit. See [Schema.Arguments].
func (r *Registry) Derived(name string, args json.RawMessage) json.RawMessage {
	if e, ok := r.entries[name]; ok {
		if derived, err := e.input.Arguments(args); err == nil {
			return derived
		}
	}
	return args
}

// derives is the schema by which a value gets the form that the tool is given:
// see [Schema.Arguments]. It is nil for an output, which is stored, and shown to
// the model, as it came.
func (e *entry) derives(use Use) *Schema {
	if use == AsArguments {
		return e.input
	}
	if reads := e.reader(use); reads != nil {
		return reads.derives
	}
	return nil
}

// reader is how the tool reads a value for that use; nil where that isn't
// known.
func (e *entry) reader(use Use) *reader {
	switch {
	case use == AsOutput:
		return e.outputs
	case e.typed == nil:
		return nil
	case use == AsArguments:
		return e.typed.arguments
	case use == AsAnswer:
		return e.typed.answers
	}
	return nil
}

const (
	judgeTime  = time.Second
	judgesMost = 4
)

// judges are the places of those who judge by methods. One that doesn't return
// keeps its place: so many are left behind at most.
var judges = make(chan struct{}, judgesMost)

// inASecond runs code of the user's, which may panic, end its goroutine, or not
// return.
func inASecond(read func(json.RawMessage) error, value json.RawMessage) error {
	late := time.NewTimer(judgeTime)
	defer late.Stop()
	select {
	case judges <- struct{}{}:
	case <-late.C:
		return nil
	}
	said := make(chan error, 1)
	go func() {
		err := error(unusable("ended its goroutine"))
		defer func() {
			if recover() != nil {
				err = unusable("panicked")
			}
			<-judges
			said <- err
		}()
		err = read(value)
	}()
	select {
	case err := <-said:
		return err
	case <-late.C:
		return nil
	}
}

// unusable is the fault of a value that the method of its type didn't get over.
func unusable(how string) *ValidationError {
	return &ValidationError{Faults: []Fault{{Rule: "decode", Message: "it can't be read: the method of its type that reads it " + how}}}
}

// newOutputs is how an Out is read again; nil where what is written need not be
// what can be read.
func newOutputs[Out any]() *reader {
	t := reflect.TypeFor[Out]()
	in, err := infer(reading, t)
	if err != nil || !readsWhatItWrites(t, map[reflect.Type]bool{}) {
		return nil
	}
	in.defaults = nil
	d := newDecoding(t, in, false)
	return newReader[Out](&d, nil, in.foreign)
}

// readsWhatItWrites reports whether a type, and all that it is made of, has a
// method to read JSON wherever it has one to write it, and no other.
func readsWhatItWrites(t reflect.Type, seen map[reflect.Type]bool) bool {
	t = target(t)
	if seen[t] {
		return true
	}
	seen[t] = true
	if k := t.Kind(); k == reflect.Interface {
		return t.NumMethod() == 0
	}
	p := reflect.PointerTo(t)
	reads, writes := p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler), p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
	if reads || writes {
		return reads && writes
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		if t.Kind() == reflect.Map && !readsWhatItWrites(t.Key(), seen) {
			return false
		}
		return readsWhatItWrites(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range jsonFields(t) {
			if !readsWhatItWrites(f.typ, seen) {
				return false
			}
		}
	}
	return true
}
