package gotype

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// inferred is a schema that was made from a type.
type inferred struct {
	schema json.RawMessage
	// exact is what values are checked against. It holds all that a schema can,
	// also what a provider isn't told, since it would only mislead a model:
	// that null fits lists and maps, the bounds of 64-bit numbers and of
	// floats, and those of a map's keys.
	exact json.RawMessage

	wrapped bool // the type's JSON is no object, and so stands in {"value": ...}
	tight   bool // it demands more than the Go type does
	open    bool // it takes every JSON value
	dynamic bool // there are interfaces in it
	foreign bool // methods of types in it read it

	defaults defaults
}

// inferInput returns the schemas of a tool's arguments. That is always an
// object: a type whose JSON is something else is wrapped as {"value": ...}.
func inferInput(t reflect.Type) (inferred, error) {
	return bothForms(func(exact bool) (inferred, error) {
		return inferObject(newWalker(reading, exact, t), t)
	})
}

// bothForms returns the schema that providers are told, and the exact one.
func bothForms(infer func(exact bool) (inferred, error)) (inferred, error) {
	in, err := infer(false)
	if err != nil {
		return in, err
	}
	exact, err := infer(true)
	in.exact = exact.schema
	return in, err
}

func inferObject(w *walker, t reflect.Type) (inferred, error) {
	base := t
	for n := 0; base.Kind() == reflect.Pointer && n < strictjson.MaxDepth; n++ {
		base = base.Elem()
	}
	s, _, err := w.nullable(base, "", true)
	if err != nil {
		return inferred{}, err
	}
	root := w.hoist(s)
	anything := base.Kind() == reflect.Interface || base == rawMessageType
	if typ, _ := root.Text("type"); typ != "object" && !anything {
		return w.wrapped(w.orNil(t, s), t.Kind() != reflect.Pointer)
	}
	if !root.Has("type") {
		root.Set("type", "object")
	}
	if !root.Has("properties") {
		root.Set("properties", &jsontree.Object{})
	}
	return w.inferred(root)
}

func (w *walker) wrapped(s *jsontree.Object, required bool) (inferred, error) {
	if !required {
		s = orNull(s)
	}
	root := jsontree.New("type", "object", "properties", jsontree.New("value", s))
	if required {
		root.Set("required", []string{"value"})
	}
	root.Set("additionalProperties", json.RawMessage("false"))
	in, err := w.inferred(root)
	in.wrapped = true
	return in, err
}

// inferOutput returns the schema of a tool's results.
func inferOutput(t reflect.Type) (inferred, error) { return infer(writing, t) }

// inferAnswer returns the schema of the answers to a tool.
func inferAnswer(t reflect.Type) (inferred, error) { return infer(reading, t) }

func infer(dir direction, t reflect.Type) (inferred, error) {
	return bothForms(func(exact bool) (inferred, error) {
		return inferAny(newWalker(dir, exact, t), t)
	})
}

func inferAny(w *walker, t reflect.Type) (inferred, error) {
	s, null, err := w.nullable(t, "", true)
	if err != nil {
		return inferred{}, err
	}
	root := w.hoist(s)
	if null {
		root = orNull(root)
	} else {
		root = w.orNil(t, root)
	}
	return w.inferred(root)
}

// hoist replaces a reference at the root by the schema that it refers to:
// models, and their providers, look for a type there.
func (w *walker) hoist(s *jsontree.Object) *jsontree.Object {
	for range strictjson.MaxDepth {
		ref, ok := s.Text("$ref")
		if !ok {
			break
		}
		def, _ := w.defs.Get(strings.TrimPrefix(ref, jsontree.DefsPrefix))
		target, ok := def.(*jsontree.Object)
		if !ok {
			break
		}
		s = target.Clone()
	}
	return s
}

func (w *walker) inferred(root *jsontree.Object) (inferred, error) {
	open := len(root.Members) == 0
	root, defs, err := jsontree.InlineRefs(root, w.defs)
	if err != nil {
		return inferred{}, err
	}
	if len(defs.Members) > 0 {
		root.Set("$defs", defs)
	}
	return inferred{schema: root.Raw(), tight: w.tight, open: open, dynamic: w.dynamic,
		foreign: w.foreign, defaults: w.defaults}, nil
}

// The methods by which a type may describe itself to the generator.
var selfDescribing = []reflect.Type{
	reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }](),
	reflect.TypeFor[interface{ JSONSchemaExtend(*jsonschema.Schema) }](),
	reflect.TypeFor[interface{ JSONSchemaAlias() any }](),
	reflect.TypeFor[interface{ JSONSchemaProperty(string) any }](),
}

// describesItself reports whether a type has a method of
// github.com/invopop/jsonschema, as JSONSchema() *jsonschema.Schema.
func describesItself(t reflect.Type) bool {
	for _, m := range selfDescribing {
		if t.Kind() != reflect.Interface &&
			(t.Implements(m) || reflect.PointerTo(t).Implements(m)) {
			return !borrowsDescription(t)
		}
	}
	return false
}

// borrowsDescription reports whether a struct has its method JSONSchema from
// what it embeds, while its JSON is all of its fields. A method that was
// promoted can't be told from one that was declared, other than by its result.
func borrowsDescription(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || encodesItself(reflect.Zero(t)) {
		return false
	}
	own := description(t)
	for i := range t.NumField() {
		f := t.Field(i)
		if own != "" && f.Anonymous && f.IsExported() && description(target(f.Type)) == own {
			return true
		}
	}
	return false
}

// description returns the description that JSONSchema gives for the zero value;
// "" without that method, or if it panics.
func description(t reflect.Type) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	d, ok := reflect.New(t).Interface().(interface{ JSONSchema() *jsonschema.Schema })
	if !ok {
		return ""
	}
	raw, err := jsontree.Encode(d.JSONSchema())
	if err != nil {
		return ""
	}
	return string(raw)
}

// described returns the generator's schema of a type that describes itself. Its
// definitions move to the root, under names that are free there.
func (w *walker) described(t reflect.Type) (s *jsontree.Object, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("%v describes itself, and panics: %v", t, r)
		}
	}()
	g := jsonschema.Reflector{Anonymous: true, Mapper: w.mapped}
	text, err := jsontree.Encode(g.ReflectFromType(t))
	if err != nil {
		return nil, fmt.Errorf("%v describes itself, in no valid way: %w", t, err)
	}
	n, err := schema.ParseNode(text)
	if err != nil {
		return nil, fmt.Errorf("%v describes itself, in no valid way: %w", t, err)
	}
	w.tight = true
	a := adopter{w: w, name: w.freeName(t.Name())}
	return a.adopt(n)
}

// mapped returns the schema of a type that the generator would get wrong; nil
// leaves a type to the generator.
func (w *walker) mapped(t reflect.Type) *jsonschema.Schema {
	if describesItself(t) || t == timeType {
		return nil
	}
	s, err := w.special(t, "", true)
	if s == nil || err != nil {
		return nil
	}
	var g jsonschema.Schema
	if err := json.Unmarshal(s.Raw(), &g); err != nil {
		return nil
	}
	return &g
}
