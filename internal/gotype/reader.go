package gotype

import (
	"reflect"
	"time"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// Reader reads a value of one Go type and drops it, to find out whether it can
// be used. A nil Reader takes everything.
type Reader struct {
	// derives is the schema by which a value gets the form that it is read in:
	// see [schema.Schema.Arguments]. Nil for an output, which is stored, and
	// shown to the model, as it came.
	derives *schema.Schema
	// foreign: methods of the value's type, or of types in it, read it.
	foreign bool
	read    func(strictjson.Doc) error // nil: whatever fits is taken
}

// SchemaReader returns a reader of arguments of which only the schema is known.
func SchemaReader(s *schema.Schema) *Reader { return &Reader{derives: s} }

// Foreign reports whether Judge runs methods of the user's types.
func (r *Reader) Foreign() bool { return r != nil && r.foreign }

// Judge returns why a value can't be used, which has fitted the schema that was
// stored for it: nil where it can. Where methods of the value's type read it,
// they get a second, and few run at once; a verdict that comes later doesn't
// count.
func (r *Reader) Judge(value []byte) error {
	if r == nil {
		return nil
	}
	d := strictjson.Doc{Text: string(value)}
	if r.derives != nil {
		var err error
		if d, err = r.derives.Arguments(value); err != nil {
			return err
		}
	}
	switch {
	case r.read == nil:
		return nil
	case r.foreign:
		return inASecond(r.read, d)
	}
	return r.read(d)
}

const (
	judgeTime  = time.Second
	judgesMost = 4
)

// judges has a place for each judgment by methods. Any goroutine may take one;
// the goroutine of inASecond frees it when the method returns. A method that
// doesn't return keeps its place: so many are left behind at most.
var judges = make(chan struct{}, judgesMost)

// inASecond runs a method of the user's type, which may panic, end its
// goroutine, or not return.
func inASecond(read func(strictjson.Doc) error, d strictjson.Doc) error {
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
		err = read(d)
	}()
	select {
	case err := <-said:
		return err
	case <-late.C:
		return nil
	}
}

// unusable returns the fault of a value with which the method of its type did
// not end well.
func unusable(how string) *misfit.Error {
	return misfit.Of("decode", "it can't be read: the method of its type that reads it "+how)
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
	reads := p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
	writes := p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
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
