package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// optionalProperties names the properties of an object that may be absent.
func optionalProperties(s *jsontree.Object) []string {
	v, _ := s.Get("properties")
	properties, ok := v.(*jsontree.Object)
	if !ok {
		return nil
	}
	required := requiredOf(s)
	var optional []string
	for _, m := range properties.Members {
		if !slices.Contains(required, m.Key) {
			optional = append(optional, m.Key)
		}
	}
	return optional
}

func requiredOf(s *jsontree.Object) (names []string) {
	v, _ := s.Get("required")
	_ = json.Unmarshal(jsontree.Text(v), &names) // what is no list of names requires nothing
	return names
}

// close gives a schema the form of strict mode.
func (c converter) close(s *jsontree.Object, optional []string, at string) error {
	const instead = "give the object fields, take it as a string of JSON, or don't ask for strict mode"
	typ, _ := s.Text("type")
	if v, ok := s.Get("additionalProperties"); ok && string(jsontree.Text(v)) != "false" {
		if _, ok := s.Get("properties"); !ok || isObject(v) || string(jsontree.Text(v)) == "true" {
			return fmt.Errorf("at %s, an object takes members of any name, which strict mode can't say: %s", place(at), instead)
		}
	}
	switch {
	case s.Has("$ref"), s.Has("anyOf"), s.Has("oneOf"), s.Has("allOf"), s.Has("enum"),
		s.Has("const"):
	case typ == "" && !s.Has("type"):
		return fmt.Errorf("at %s, a value may be of any type, which strict mode can't say: %s",
			place(at), instead)
	case hasType(s, "object") && !s.Has("properties"):
		return fmt.Errorf("at %s, an object has no properties, which strict mode can't say: %s",
			place(at), instead)
	case hasType(s, "array") && !s.Has("items"):
		return fmt.Errorf("at %s, a list holds values of any type, which strict mode can't say: %s",
			place(at), instead)
	}
	v, _ := s.Get("properties")
	properties, ok := v.(*jsontree.Object)
	if !ok {
		return nil
	}
	if !c.Optional {
		names := []string{}
		for i, m := range properties.Members {
			names = append(names, m.Key)
			if o, ok := m.Value.(*jsontree.Object); ok && slices.Contains(optional, m.Key) {
				properties.Members[i].Value = orNull(o)
			}
		}
		s.Set("required", names)
	}
	s.Set("additionalProperties", json.RawMessage("false"))
	return nil
}

func place(at string) string {
	if at == "" {
		return "its root"
	}
	return at
}

// orNull returns a schema that takes null as well.
func orNull(s *jsontree.Object) *jsontree.Object {
	null := json.RawMessage(`"null"`)
	if takesNull(s) {
		return s
	}
	typ, _ := s.Get("type")
	if t, ok := typ.(json.RawMessage); ok && !s.Has("enum") && !s.Has("const") {
		s.Set("type", []any{t, null})
		return s
	}
	outer := &jsontree.Object{}
	if text, ok := s.Get("description"); ok {
		outer.Set("description", text)
		s.Delete("description")
	}
	if v, _ := s.Get("anyOf"); len(s.Members) == 1 && v != nil {
		if list, ok := v.([]any); ok {
			outer.Set("anyOf", append(slices.Clone(list), jsontree.New("type", "null")))
			return outer
		}
	}
	outer.Set("anyOf", []any{s, jsontree.New("type", "null")})
	return outer
}

// takesNull reports whether null fits a schema, as far as its type, its enum
// and its alternatives say. One that says nothing takes it.
func takesNull(s *jsontree.Object) bool {
	text := func(v any) string { return string(jsontree.Text(v)) }
	hasNull := func(list []any) bool {
		return slices.ContainsFunc(list, func(v any) bool {
			t := text(v)
			return t == `"null"` ||
				t == "null"
		})
	}
	if v, ok := s.Get("enum"); ok {
		list, _ := v.([]any)
		return hasNull(list)
	}
	if v, ok := s.Get("const"); ok {
		return text(v) == "null"
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if v, ok := s.Get(key); ok {
			list, _ := v.([]any)
			return slices.ContainsFunc(list, func(v any) bool {
				o,
					ok := v.(*jsontree.Object)
				return ok && takesNull(o)
			})
		}
	}
	v, ok := s.Get("type")
	if !ok {
		return !s.Has("$ref")
	}
	if list, ok := v.([]any); ok {
		return hasNull(list)
	}
	return text(v) == `"null"`
}

// DropNulls undoes on a call's arguments what Closed did to the schema: members
// that are null are left out where the tool's own schema neither requires them
// nor takes null. Everything else stays byte for byte; arguments that are no
// object are returned as they are.
func DropNulls(args, schema json.RawMessage) json.RawMessage {
	if !json.Valid(args) || !json.Valid(schema) {
		return args
	}
	s, err := jsontree.Parse(schema)
	if err != nil {
		return args
	}
	root, ok := s.(*jsontree.Object)
	if !ok {
		return args
	}
	defs, err := definitions(root)
	if err != nil {
		return args
	}
	if root, defs, err = jsontree.InlineRefs(root, defs); err != nil {
		return args
	}
	v, err := jsontree.Parse(args)
	if err != nil {
		return args
	}
	d := dropper{defs: defs}
	v = d.value(v, root)
	if !d.dropped {
		return args
	}
	return jsontree.Text(v)
}

type dropper struct {
	defs    *jsontree.Object
	dropped bool
}

func (d *dropper) value(v any, s *jsontree.Object) any {
	if ref, ok := s.Text("$ref"); ok {
		def, _ := d.defs.Get(strings.TrimPrefix(ref, jsontree.DefsPrefix))
		if s, ok = def.(*jsontree.Object); !ok {
			return v
		}
	}
	switch v := v.(type) {
	case *jsontree.Object:
		return d.object(v, s)
	case []any:
		items, _ := s.Get("items")
		if sub, ok := items.(*jsontree.Object); ok {
			for i := range v {
				v[i] = d.value(v[i], sub)
			}
		}
	}
	return v
}

func (d *dropper) object(o, s *jsontree.Object) *jsontree.Object {
	v, _ := s.Get("properties")
	properties, ok := v.(*jsontree.Object)
	if !ok {
		return d.alternatives(o, s)
	}
	optional := optionalProperties(s)
	out := &jsontree.Object{}
	for _, m := range o.Members {
		sub, _ := properties.Get(m.Key)
		known, ok := sub.(*jsontree.Object)
		if raw, isRaw := m.Value.(json.RawMessage); ok && isRaw && string(raw) == "null" &&
			slices.Contains(optional, m.Key) && !takesNull(known) && !twice(o, m.Key) {
			d.dropped = true
			continue
		}
		if ok {
			m.Value = d.value(m.Value, known)
		}
		out.Members = append(out.Members, m)
	}
	return out
}

// twice reports whether a member stands there more than once, which the tool is
// to refuse.
func twice(o *jsontree.Object, key string) bool {
	n := 0
	for _, m := range o.Members {
		if m.Key == key {
			n++
		}
	}
	return n > 1
}

// alternatives follows the one alternative that is about objects.
func (d *dropper) alternatives(o, s *jsontree.Object) *jsontree.Object {
	for _, key := range []string{"anyOf", "oneOf"} {
		v, _ := s.Get(key)
		list, _ := v.([]any)
		var objects []*jsontree.Object
		for _, a := range list {
			if sub, ok := a.(*jsontree.Object); ok && (sub.Has("properties") || sub.Has("$ref")) {
				objects = append(objects, sub)
			}
		}
		if len(objects) == 1 {
			if out, ok := d.value(o, objects[0]).(*jsontree.Object); ok {
				return out
			}
		}
	}
	return o
}
