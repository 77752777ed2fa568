package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// Dialect is what a provider takes of JSON Schema. A tool checks its arguments
// itself, so that a schema here is what the model is told, and may say less:
// what a provider refuses is told as text, in the description.
type Dialect struct {
	// Keywords are the members that it takes beside type, properties, required,
	// items, enum, anyOf, description and additionalProperties. Nil means all.
	Keywords []string
	Formats  []string // values of "format" that it takes; nil: all
	// Refs is whether it takes $ref and $defs. Without it, a type that holds
	// itself is an error. Other references are written out either way.
	Refs  bool
	OneOf bool // it takes oneOf; otherwise anyOf
	Const bool // it takes const; otherwise enum with one value
	// BareRefs is for a provider that writes references out to some depth:
	// nothing may stand beside $ref, and a property that leads to one is never
	// required. Which ones are is told in the description.
	BareRefs bool
	// Closed is strict mode: each object has additionalProperties false and all
	// its properties required, and those that were optional take null. What
	// can't be said so, a map or a value of any type, is an error. See
	// DropNulls.
	Closed bool
	// Optional, with Closed, lets optional properties stay what they are.
	Optional bool
}

// always are the members that every provider takes.
var always = []string{"type", "properties", "required", "items", "enum", "anyOf", "description",
	"additionalProperties"}

// Convert rewrites the schema of a tool's arguments, or of a response. The
// order of members is kept. The root is always an object with properties;
// $schema, $id and booleans as schemas are never in it. The error says where in
// the schema something stands that the provider can't be told, and what to do.
func (d Dialect) Convert(schema json.RawMessage) (json.RawMessage, error) {
	if t := bytes.TrimSpace(schema); len(t) == 0 || string(t) == "null" {
		schema = json.RawMessage("{}")
	}
	if !json.Valid(schema) {
		return nil, errors.New("the schema is no JSON")
	}
	root, err := jsontree.Parse(schema)
	if err != nil {
		return nil, err
	}
	s, ok := root.(*jsontree.Object)
	if !ok {
		return nil, errors.New("the schema is no object")
	}
	defs, err := definitions(s)
	if err != nil {
		return nil, err
	}
	if s, defs, err = jsontree.InlineRefs(s, defs); err != nil {
		return nil, err
	}
	if typ, ok := s.Get("type"); ok && !slices.Contains([]string{`"object"`, `["object"]`},
		string(jsontree.Text(typ))) {
		return nil, fmt.Errorf("the schema's type is %s, and has to be an object",
			jsontree.Text(typ))
	}
	out := jsontree.New("type", "object")
	s.Delete("type")
	out.Members = append(out.Members, s.Members...)
	if !out.Has("properties") {
		out.Set("properties", &jsontree.Object{})
	}
	c := converter{d}
	if out, err = c.schema(out, ""); err != nil {
		return nil, err
	}
	if err := c.keep(out, defs); err != nil {
		return nil, err
	}
	return out.Raw(), nil
}

// definitions takes them out of a schema, under their newer name.
func definitions(s *jsontree.Object) (*jsontree.Object, error) {
	defs := &jsontree.Object{}
	for _, key := range []string{"$defs", "definitions"} {
		v, _ := s.Get(key)
		if own, ok := v.(*jsontree.Object); ok {
			for _, m := range own.Members {
				if m.Value = emptyIfTrue(m.Value); isObject(m.Value) {
					defs.Set(m.Key, m.Value)
				}
			}
		}
		s.Delete(key)
	}
	return defs, localRefs(s, defs)
}

// localRefs gives references to "definitions" their newer form, and refuses
// those that lead out of the schema.
func localRefs(s, defs *jsontree.Object) error {
	var visit func(string, any) (any, error)
	visit = func(_ string, v any) (any, error) {
		o, ok := v.(*jsontree.Object)
		if !ok {
			return v, nil
		}
		if ref, ok := o.Text("$ref"); ok {
			name := strings.TrimPrefix(strings.TrimPrefix(ref, "#/definitions/"),
				jsontree.DefsPrefix)
			if !defs.Has(name) {
				return nil, fmt.Errorf("the schema refers to %q, which is not among its $defs: write it out", ref)
			}
			o.Set("$ref", jsontree.DefsPrefix+name)
		}
		return o, jsontree.EachSub(o, visit)
	}
	for _, m := range defs.Members {
		if _, err := visit("", m.Value); err != nil {
			return err
		}
	}
	_, err := visit("", s)
	return err
}

// keep adds the definitions that hold themselves.
func (c converter) keep(root, defs *jsontree.Object) error {
	if len(defs.Members) == 0 {
		return nil
	}
	if !c.Refs {
		return fmt.Errorf("the type %s holds itself, which the provider can't be told: bound its depth, or take it as a string of JSON", defs.Members[0].Key)
	}
	kept := &jsontree.Object{}
	for _, m := range defs.Members {
		v, err := c.any(m.Value, "/$defs/"+m.Key)
		if err != nil {
			return err
		}
		kept.Set(m.Key, v)
	}
	root.Set("$defs", kept)
	return nil
}

func isObject(v any) bool {
	_, ok := v.(*jsontree.Object)
	return ok
}

// emptyIfTrue returns the schema {} for the boolean true.
func emptyIfTrue(v any) any {
	if raw, ok := v.(json.RawMessage); ok && string(raw) == "true" {
		return &jsontree.Object{}
	}
	return v
}
