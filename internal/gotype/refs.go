package gotype

import (
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// refersTo reports whether a schema, or one below it, has exactly this
// reference.
func refersTo(s *jsontree.Object, ref string) bool {
	if s == nil {
		return false
	}
	if r, ok := s.Text("$ref"); ok && r == ref {
		return true
	}
	found := false
	_ = jsontree.EachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*jsontree.Object); ok && !found {
			found = refersTo(o, ref)
		}
		return sub, nil
	})
	return found
}

// adopter takes a foreign schema into another one: its definitions move to the
// other's, under names that begin with name.
type adopter struct {
	w    *walker
	name string
	mine []string // the definitions that came from it
}

// movedPrefix begins a reference that has its new form but for this. A foreign
// schema may itself hold schemas with definitions of their own, whose
// references must not be taken for its.
const movedPrefix = "#/$moved/"

func (a *adopter) adopt(s *jsontree.Object) (*jsontree.Object, error) {
	s, err := a.move(s)
	if err != nil {
		return nil, err
	}
	settle := func(v any) {
		_ = rewriteRefs(v, func(ref string) (string, error) {
			return strings.Replace(ref, movedPrefix, jsontree.DefsPrefix, 1), nil
		})
	}
	for _, name := range a.mine {
		def, _ := a.w.defs.Get(name)
		settle(def)
	}
	settle(s)
	return s, nil
}

// move moves the definitions of s, those of the schemas in it before, and s
// itself if it refers to itself.
func (a *adopter) move(s *jsontree.Object) (*jsontree.Object, error) {
	own, _ := s.Get("$defs")
	defs, _ := own.(*jsontree.Object)
	if err := jsontree.EachSub(s, a.moveInner); err != nil {
		return nil, err
	}
	moved := map[string]string{}
	if refersTo(s, "#") {
		moved["#"] = a.reserve(a.name)
	}
	s.Delete("$defs")
	if defs == nil {
		defs = &jsontree.Object{}
	}
	for _, d := range defs.Members {
		moved[jsontree.DefsPrefix+d.Key] = a.reserve(a.name + "_" + d.Key)
	}
	to := func(ref string) (string, error) {
		if strings.HasPrefix(ref, movedPrefix) {
			return ref, nil
		}
		if name, ok := moved[ref]; ok {
			return movedPrefix + name, nil
		}
		return "", fmt.Errorf("its schema refers to %q, outside of itself", ref)
	}
	for _, d := range defs.Members {
		if err := rewriteRefs(d.Value, to); err != nil {
			return nil, err
		}
		a.w.defs.Set(moved[jsontree.DefsPrefix+d.Key], d.Value)
	}
	if err := rewriteRefs(s, to); err != nil {
		return nil, err
	}
	if name, ok := moved["#"]; ok {
		a.w.defs.Set(name, s)
		s = jsontree.New("$ref", movedPrefix+name)
	}
	return s, nil
}

// moveInner moves the definitions of the schemas below one, if they have any.
func (a *adopter) moveInner(_ string, v any) (any, error) {
	s, ok := v.(*jsontree.Object)
	if !ok {
		return v, nil
	}
	if s.Has("$defs") {
		return a.move(s)
	}
	return s, jsontree.EachSub(s, a.moveInner)
}

// reserve takes a free name among the definitions.
func (a *adopter) reserve(name string) string {
	name = a.w.freeName(name)
	a.w.defs.Set(name, &jsontree.Object{})
	a.mine = append(a.mine, name)
	return name
}

// rewriteRefs replaces each reference in a schema by what to makes of it.
func rewriteRefs(v any, to func(ref string) (string, error)) error {
	s, ok := v.(*jsontree.Object)
	if !ok {
		return nil
	}
	if ref, ok := s.Text("$ref"); ok {
		moved, err := to(ref)
		if err != nil {
			return err
		}
		s.Set("$ref", moved)
	}
	return jsontree.EachSub(s, func(_ string, sub any) (any, error) {
		return sub, rewriteRefs(sub, to)
	})
}
