package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// shape is what it takes to write and read a type's values. It is made once,
// and does not change: any goroutine may use it.
type shape struct {
	kind   kind
	elem   *shape // of a list, or of what a pointer points to
	fields []field
	names  map[string]int // of fields
	rest   int            // the field of type Rest; -1: there is none
	always uint64         // the fields that are never left out
}

type kind int

const (
	leaf    kind = iota // by encoding/json/v2
	raw                 // json.RawMessage
	text                // a string without methods
	integer             // a signed integer without methods
	natural             // an unsigned one
	boolean             // a bool without methods
	object              // a struct without methods
	list                // a slice, but of bytes
	pointer
)

// field is a field of a struct, or of one that is embedded in it.
type field struct {
	name     string
	key      string // as it is written, with the colon
	index    []int
	shape    *shape
	optional omission
}

// omission is when a field is left out.
type omission int

const (
	never omission = iota // and it must be there to be read
	whenZero
	whenSaysZero // by its method IsZero
	whenEmpty    // of what has a length
)

type zeroer interface{ IsZero() bool }

// maxFields is how many fields a struct may have: reading notes them in a word.
const maxFields = 64

var (
	shapes     sync.Map // reflect.Type to *shape
	rawType    = reflect.TypeFor[json.RawMessage]()
	restType   = reflect.TypeFor[Rest]()
	zeroerType = reflect.TypeFor[zeroer]()
	methods    = []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// shapeOf returns a type's shape.
func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	known := map[reflect.Type]*shape{}
	s := learn(t, known)
	for t, s := range known { // whole by now, those that hold themselves too
		shapes.LoadOrStore(t, s)
	}
	return s
}

func learn(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s, ok := known[t]; ok {
		return s
	}
	s := &shape{rest: -1}
	known[t] = s
	switch k := t.Kind(); {
	case t == rawType:
		s.kind = raw
	case k == reflect.Pointer:
		s.kind, s.elem = pointer, learn(t.Elem(), known)
	case hasMethods(t):
	case k == reflect.String:
		s.kind = text
	case reflect.Int <= k && k <= reflect.Int64:
		s.kind = integer
	case reflect.Uint <= k && k <= reflect.Uint64:
		s.kind = natural
	case k == reflect.Bool:
		s.kind = boolean
	case k == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		s.kind, s.elem = list, learn(t.Elem(), known)
	case k == reflect.Map || k == reflect.Array || k == reflect.Interface:
		// Equal names would not be found in it.
		panic(fmt.Sprintf("strictjson: no record has a %v", t))
	case k == reflect.Struct:
		s.kind, s.names = object, map[string]int{}
		s.learnFields(t, nil, known)
	}
	return s
}

func hasMethods(t reflect.Type) bool {
	for _, m := range methods {
		if reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return false
}

// learnFields lists the fields of a struct in their order, those of embedded
// structs in their place.
func (s *shape) learnFields(t reflect.Type, outer []int, known map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(outer[:len(outer):len(outer)], i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == restType:
			s.rest = i
		case f.Anonymous && name == "":
			s.learnFields(f.Type, index, known)
		case name != "" && name != "-":
			own := field{name: name, index: index, shape: learn(f.Type, known)}
			own.key = string(AppendString(nil, name)) + ":"
			own.optional = omissionOf(options, f.Type, own.shape)
			if _, twice := s.names[name]; twice || len(s.fields) == maxFields || !f.IsExported() {
				// A test has seen every type.
				panic(fmt.Sprintf("strictjson: %v can't have the field %s", t, f.Name))
			}
			if own.optional == never {
				s.always |= 1 << len(s.fields)
			}
			s.names[name] = len(s.fields)
			s.fields = append(s.fields, own)
		}
	}
}

// omissionOf reads a tag's options. Both words have the meaning that they have
// in encoding/json, where records began: in version 2, omitempty would leave
// out a raw value that is {} and keep a number that is 0.
func omissionOf(options string, t reflect.Type, s *shape) omission {
	zero, empty := options == "omitzero", options == "omitempty"
	switch k := t.Kind(); {
	case options == "":
		return never
	case s.kind == raw && (zero || empty): // without a byte it is no JSON
		return whenEmpty
	case zero && t.Implements(zeroerType):
		return whenSaysZero
	case zero:
		return whenZero
	case empty && k == reflect.Slice:
		return whenEmpty
	case empty && k != reflect.Struct && k != reflect.Map && k != reflect.Array:
		return whenZero
	}
	panic("strictjson: a field's options are " + options + ", and may be omitzero or omitempty")
}
