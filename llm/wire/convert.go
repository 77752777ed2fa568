package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// converter rewrites one schema after the other, from the root down. at is a
// JSON Pointer to it, for errors.
type converter struct{ Dialect }

// any converts what stands where a schema is expected.
func (c converter) any(v any, at string) (any, error) {
	s, ok := emptyIfTrue(v).(*jsontree.Object)
	if !ok {
		if raw, _ := v.(json.RawMessage); string(raw) == "false" {
			return nil, fmt.Errorf("at %s, the schema false takes no value at all: leave it out",
				at)
		}
		return nil, fmt.Errorf("at %s, a schema is an object, not %s", at, jsontree.Text(v))
	}
	return c.schema(s, at)
}

func (c converter) schema(s *jsontree.Object, at string) (*jsontree.Object, error) {
	s = s.Clone()
	s.Delete("$schema")
	s.Delete("$id")
	s.Delete("$comment")
	if v, ok := s.Get("properties"); ok && !isObject(v) {
		s.Set("properties", &jsontree.Object{})
	}
	// Which OpenAI refuses, with the whole request.
	if hasType(s, "array") && !s.Has("items") && !c.Closed {
		s.Set("items", &jsontree.Object{})
	}
	c.unions(s)
	c.constant(s)
	c.tell(s)
	optional := optionalProperties(s)
	if err := c.subs(s, at); err != nil {
		return nil, err
	}
	if c.BareRefs {
		c.bareRefs(s)
	}
	if !c.Closed {
		return s, nil
	}
	return s, c.close(s, optional, at)
}

// hasType reports whether a type is a schema's, or one of them.
func hasType(s *jsontree.Object, name string) bool {
	v, _ := s.Get("type")
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	return slices.ContainsFunc(list, func(t any) bool {
		return t != nil &&
			string(jsontree.Text(t)) == `"`+name+`"`
	})
}

// subs converts the schemas right below s.
func (c converter) subs(s *jsontree.Object, at string) error {
	for i := range s.Members { // EachSub writes into what it visits, and the caller's may be shared
		switch v := s.Members[i].Value.(type) {
		case *jsontree.Object:
			s.Members[i].Value = v.Clone()
		case []any:
			s.Members[i].Value = slices.Clone(v)
		}
	}
	return jsontree.EachSub(s, func(key string, sub any) (any, error) {
		if raw, ok := sub.(json.RawMessage); ok && slices.Contains(jsontree.SchemaOrNo, key) &&
			(string(raw) == "true" || string(raw) == "false") {
			return sub, nil
		}
		at := at + "/" + key
		if name, ok := nameOf(s, key, sub); ok {
			at += "/" + name
		}
		return c.any(sub, at)
	})
}

// nameOf finds which property a schema is of.
func nameOf(s *jsontree.Object, key string, sub any) (string, bool) {
	v, _ := s.Get(key)
	if by, ok := v.(*jsontree.Object); ok && isObject(sub) {
		for _, m := range by.Members {
			if m.Value == sub {
				return m.Key, true
			}
		}
	}
	return "", false
}

func (c converter) unions(s *jsontree.Object) {
	one, ok := s.Get("oneOf")
	if !ok || c.OneOf {
		return
	}
	// Both must hold, which can't be said without allOf: the tool's own check
	// says it.
	if s.Has("anyOf") {
		c.describe(s, "oneOf", one)
	} else {
		rename(s, "oneOf", "anyOf", one)
	}
	s.Delete("oneOf")
}

func (c converter) constant(s *jsontree.Object) {
	v, ok := s.Get("const")
	if !ok || c.Const {
		return
	}
	if !s.Has("enum") {
		rename(s, "const", "enum", []any{v})
	}
	s.Delete("const")
}

// bareRefs moves what stands beside a reference around it, and makes properties
// optional that lead to one. What is left of references are those of types that
// hold themselves.
func (c converter) bareRefs(s *jsontree.Object) {
	if ref, ok := s.Get("$ref"); ok && len(s.Members) > 1 && !s.Has("anyOf") {
		rename(s, "$ref", "anyOf", []any{jsontree.New("$ref", ref)})
	}
	properties, _ := s.Get("properties")
	by, _ := properties.(*jsontree.Object)
	required, _ := s.Get("required")
	list, _ := required.([]any)
	var kept, told []any
	for _, name := range list {
		var key string
		if json.Unmarshal(jsontree.Text(name), &key) == nil && by != nil {
			if v, _ := by.Get(key); holdsRef(v) {
				told = append(told, name)
				continue
			}
		}
		kept = append(kept, name)
	}
	if len(told) == 0 {
		return
	}
	c.describe(s, "required", told)
	if s.Set("required", kept); len(kept) == 0 {
		s.Delete("required")
	}
}

func holdsRef(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, holdsRef)
	case *jsontree.Object:
		_, ok := v.Text("$ref")
		return ok || slices.ContainsFunc(v.Members,
			func(m jsontree.Member) bool { return holdsRef(m.Value) })
	}
	return false
}

// rename puts a member in the place of another.
func rename(s *jsontree.Object, old, key string, value any) {
	for i := range s.Members {
		if s.Members[i].Key == old {
			s.Members[i] = jsontree.Member{Key: key, Value: value}
		}
	}
}

// tell moves what the provider doesn't take into the description.
func (c converter) tell(s *jsontree.Object) {
	for _, m := range slices.Clone(s.Members) {
		if m.Key == "format" && c.Formats != nil {
			if f, _ := s.Text("format"); !slices.Contains(c.Formats, f) {
				c.describe(s, m.Key, m.Value)
				s.Delete(m.Key)
				continue
			}
		}
		switch {
		case c.Keywords == nil, slices.Contains(always, m.Key), slices.Contains(c.Keywords, m.Key):
		// Or keep complains of it.
		case m.Key == "$ref", m.Key == "oneOf" && c.OneOf, m.Key == "const" && c.Const:
		case m.Key == "title", m.Key == "examples" && len(jsontree.Text(m.Value)) > 200:
			s.Delete(m.Key)
		default:
			c.describe(s, m.Key, m.Value)
			s.Delete(m.Key)
		}
	}
}

// describe adds a member to the description, as text.
func (c converter) describe(s *jsontree.Object, key string, value any) {
	text, _ := s.Text("description")
	said := key + ": " + string(jsontree.Text(value))
	if raw, ok := value.(json.RawMessage); ok { // a string is more readable without its quotes
		var plain string
		if json.Unmarshal(raw, &plain) == nil && len(raw) > 0 && raw[0] == '"' {
			said = key + ": " + plain
		}
	}
	if text != "" {
		said = strings.TrimRight(text, " ") + " (" + said + ")"
	}
	s.Set("description", said)
}
