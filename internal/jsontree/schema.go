package jsontree

import (
	"fmt"
	"slices"
	"strings"
)

// Where a JSON Schema holds other schemas (JSON Schema 2020-12, core, section
// 10; "definitions" is its older form of $defs).
var (
	schemaIn = []string{
		"not", "if", "then", "else", "contains", "propertyNames", "items", "contentSchema",
	}
	schemasIn = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemasBy = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// SchemaOrNo names the members that hold a schema, or often a boolean.
var SchemaOrNo = []string{"additionalProperties", "unevaluatedProperties", "unevaluatedItems"}

// EachSub replaces each schema right below s by what f makes of it.
func EachSub(s *Object, f func(key string, sub any) (any, error)) error {
	for i := range s.Members {
		m := &s.Members[i]
		var err error
		switch v := m.Value.(type) {
		case []any:
			if slices.Contains(schemasIn, m.Key) {
				for j := range v {
					if v[j], err = f(m.Key, v[j]); err != nil {
						return err
					}
				}
			}
		default:
			by, ok := v.(*Object)
			switch {
			case ok && slices.Contains(schemasBy, m.Key):
				for j := range by.Members {
					if by.Members[j].Value, err = f(m.Key, by.Members[j].Value); err != nil {
						return err
					}
				}
			case slices.Contains(schemaIn, m.Key), slices.Contains(SchemaOrNo, m.Key):
				if m.Value, err = f(m.Key, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// MaxNodes bounds a schema whose definitions are written out wherever they are used.
const MaxNodes = 20000

// ErrTooLarge is what becomes of a larger one.
var ErrTooLarge = fmt.Errorf("the schema has more than %d parts: write a smaller one by hand",
	MaxNodes)

// DefsPrefix begins a reference to a definition of the same schema.
const DefsPrefix = "#/$defs/"

// inliner writes definitions out where they are used, other than those that hold themselves.
type inliner struct {
	defs      *Object
	recursive map[string]bool
	kept      *Object
	done      map[string]*Object
	nodes     int
}

// InlineRefs returns root with its definitions written out, and those that
// remain: the ones that hold themselves.
func InlineRefs(root, defs *Object) (*Object, *Object, error) {
	in := &inliner{
		defs: defs, recursive: map[string]bool{}, kept: &Object{}, done: map[string]*Object{},
	}
	for _, d := range defs.Members {
		in.recursive[d.Key] = in.reaches(d.Key, d.Key, map[string]bool{})
	}
	root, err := in.inline(root)
	return root, in.kept, err
}

// reaches reports whether the definition from refers, directly or not, to the
// definition to.
func (in *inliner) reaches(from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	def, _ := in.defs.Get(from)
	s, _ := def.(*Object)
	return s != nil && in.refersInto(s, to, seen)
}

func (in *inliner) refersInto(s *Object, to string, seen map[string]bool) bool {
	if ref, ok := s.Text("$ref"); ok {
		name := strings.TrimPrefix(ref, DefsPrefix)
		if name == to || in.reaches(name, to, seen) {
			return true
		}
	}
	found := false
	_ = EachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*Object); ok && !found {
			found = in.refersInto(o, to, seen)
		}
		return sub, nil
	})
	return found
}

// inline is s with its references replaced. s itself stays as it is.
func (in *inliner) inline(s *Object) (*Object, error) {
	if in.nodes++; in.nodes > MaxNodes {
		return nil, ErrTooLarge
	}
	s = s.Clone()
	if ref, ok := s.Text("$ref"); ok {
		def, err := in.definition(strings.TrimPrefix(ref, DefsPrefix))
		if err != nil || def == nil {
			return s, err
		}
		s.Delete("$ref")
		own := s.Members
		s = def.Clone()
		for _, m := range own { // what stands beside a reference, such as a description, counts
			s.Set(m.Key, m.Value)
		}
		return s, nil
	}
	for i, m := range s.Members { // EachSub writes into the lists and maps it visits
		switch v := m.Value.(type) {
		case *Object:
			s.Members[i].Value = v.Clone()
		case []any:
			s.Members[i].Value = append([]any(nil), v...)
		}
	}
	return s, EachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*Object); ok {
			return in.inline(o)
		}
		return sub, nil
	})
}

// definition is a definition to write out, itself written out; nil for one that
// stays, which is then kept.
func (in *inliner) definition(name string) (*Object, error) {
	def, _ := in.defs.Get(name)
	s, ok := def.(*Object)
	if !ok {
		return nil, fmt.Errorf("the schema refers to the definition %q, which it does not have", name)
	}
	if !in.recursive[name] {
		return in.inline(s)
	}
	if !in.kept.Has(name) {
		in.kept.Set(name, &Object{}) // before what refers back to it
		full, err := in.inline(s)
		if err != nil {
			return nil, err
		}
		in.kept.Set(name, full)
	}
	return nil, nil
}
