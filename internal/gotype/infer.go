package gotype

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// direction is what a schema describes: JSON that is decoded into a type, or
// JSON that is made from one. They differ: a nil slice is made into null, which
// providers are not told to write for one.
type direction int

const (
	reading direction = iota
	writing
)

var (
	rawMessageType = reflect.TypeFor[json.RawMessage]()
	numberType     = reflect.TypeFor[json.Number]()
	durationType   = reflect.TypeFor[time.Duration]()
	timeType       = reflect.TypeFor[time.Time]()
	bigIntType     = reflect.TypeFor[big.Int]()

	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// walker infers the schema of a type and of what it is made of. All that it
// needs is in the type, not in a value; so this happens once, when a tool is
// made, in one goroutine.
type walker struct {
	dir   direction
	exact bool // the schema says all that a schema can, see inferred.exact
	// recursive has the types that hold themselves: they are referred to, all
	// others are written out.
	recursive map[reflect.Type]bool
	names     map[reflect.Type]string
	own       map[reflect.Type]*jsontree.Object // of types that describe themselves
	defs      *jsontree.Object
	nodes     int

	// tight: the schema demands something that the Go type does not, such as a
	// minimum. What is made from the type may then not fit it.
	tight bool
	// dynamic: there are interfaces, and only a value shows what they hold.
	dynamic bool
	// foreign: it is read by methods of types in it.
	foreign  bool
	defaults defaults // only when reading
}

func newWalker(dir direction, exact bool, t reflect.Type) *walker {
	w := &walker{
		dir: dir, exact: exact,
		recursive: map[reflect.Type]bool{},
		names:     map[reflect.Type]string{},
		own:       map[reflect.Type]*jsontree.Object{},
		defs:      &jsontree.Object{},
		defaults:  defaults{},
	}
	w.findRecursion(t, map[reflect.Type]bool{}, map[reflect.Type]bool{})
	return w
}

// findRecursion marks a type in each cycle: the one by which the search, depth
// first, comes back.
func (w *walker) findRecursion(t reflect.Type, open, done map[reflect.Type]bool) {
	for n := 0; t.Kind() == reflect.Pointer && n < strictjson.MaxDepth; n++ {
		t = t.Elem()
	}
	if t.Name() != "" {
		if open[t] {
			w.recursive[t] = true
			return
		}
		if done[t] {
			return
		}
		open[t] = true
		defer func() { delete(open, t); done[t] = true }()
	}
	if w.hasOwnForm(t) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		for _, f := range jsonFields(t) {
			w.findRecursion(f.typ, open, done)
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		w.findRecursion(t.Elem(), open, done)
	}
}

// item returns the schema of the items of a list or a map. In arguments, an
// item that is a pointer takes no null, unlike a field: few functions expect a
// nil among their items.
func (w *walker) item(t reflect.Type, at string, addressable bool) (*jsontree.Object, error) {
	s, null, err := w.nullable(t, at, addressable)
	if err == nil && null && w.dir == writing {
		s = orNull(s)
	}
	return w.orNil(t, s), err
}

// orNil lets a schema take null where that is a nil t.
func (w *walker) orNil(t reflect.Type, s *jsontree.Object) *jsontree.Object {
	if s == nil || !w.nilFits(t, s) {
		return s
	}
	s = orNull(s)
	if w.dir == reading && len(s.Members) > 0 {
		s.Set("$comment", schema.NilComment)
	}
	return s
}

// nilFits reports whether null is to fit where t is wanted, since that is what
// Go makes of a nil slice or map: as a list, a map or bytes of length 0, and so
// only where that length fits s.
func (w *walker) nilFits(t reflect.Type, s *jsontree.Object) bool {
	if k := t.Kind(); k != reflect.Slice && k != reflect.Map ||
		w.dir == reading && (!w.exact || w.hasOwnForm(t)) {
		return false
	}
	for _, least := range []string{"minItems", "minProperties", "minLength"} {
		if n, ok := s.Get(least); ok && string(jsontree.Text(n)) != "0" {
			return false
		}
	}
	return !s.Has("enum") && !s.Has("const")
}

// nullable returns the schema of t without null, and whether null is to be
// added. Addressable is true where encoding/json can take the address of a
// value, and so call the methods of *t.
func (w *walker) nullable(
	t reflect.Type, at string, addressable bool,
) (s *jsontree.Object, null bool, err error) {
	for n := 0; t.Kind() == reflect.Pointer; n++ {
		if n == strictjson.MaxDepth {
			return nil, false, fmt.Errorf("%sthe pointer type %v points to itself", place(at), t)
		}
		t, null, addressable = t.Elem(), true, true
	}
	if w.nodes++; w.nodes > jsontree.MaxNodes {
		return nil, false, fmt.Errorf("%s%w", place(at), jsontree.ErrTooLarge)
	}
	if !w.recursive[t] {
		s, err = w.bare(t, at, addressable)
		return s, null, err
	}
	name, err := w.define(t, at)
	return jsontree.New("$ref", jsontree.DefsPrefix+name), null, err
}

// define puts the schema of a recursive type among the definitions, once.
func (w *walker) define(t reflect.Type, at string) (name string, err error) {
	if name, ok := w.names[t]; ok {
		return name, nil
	}
	name = w.freeName(t.Name())
	w.names[t] = name
	w.defs.Set(name, &jsontree.Object{}) // in the order in which they are met
	s, err := w.bare(t, at, true)
	if err != nil {
		return "", err
	}
	w.defs.Set(name, s)
	return name, nil
}

var (
	importPath = regexp.MustCompile(`[^\[\],*]*/`)
	unsafeName = regexp.MustCompile(`[^A-Za-z0-9_]+`)
)

// freeName returns a name that is safe in a reference, and free:
// Box[example.com/a/b.Inner] is Box_b_Inner.
func (w *walker) freeName(name string) string {
	name = importPath.ReplaceAllString(name, "")
	name = strings.Trim(unsafeName.ReplaceAllString(name, "_"), "_")
	if name == "" {
		name = "type"
	}
	free := name
	for n := 2; w.defs.Has(free); n++ {
		free = name + "_" + strconv.Itoa(n)
	}
	return free
}

// orNull lets a schema take null, too.
func orNull(s *jsontree.Object) *jsontree.Object {
	if len(s.Members) == 0 {
		return s
	}
	if s.Has("type") && !s.Has("const") {
		typ, single := s.Text("type")
		values, _ := s.Get("enum")
		list, isList := values.([]any)
		if single && (!s.Has("enum") || isList) {
			s = s.Clone()
			s.Set("type", []string{typ, "null"})
			if isList {
				s.Set("enum", append(list[:len(list):len(list)], json.RawMessage("null")))
			}
			return s
		}
	}
	s = s.Clone()
	outer := &jsontree.Object{}
	// They are about the place, not one of its two forms.
	for _, k := range []string{"title", "description", "default"} {
		if v, ok := s.Get(k); ok {
			outer.Set(k, v)
			s.Delete(k)
		}
	}
	outer.Set("anyOf", []any{s, jsontree.New("type", "null")})
	return outer
}

// place begins an error about a part of a type.
func place(at string) string {
	if at == "" {
		return ""
	}
	return "field " + strings.TrimPrefix(at, ".") + ": "
}
