package tool

import (
	"fmt"
	"strings"
)

const defsPrefix = "#/$defs/"

// refersTo says whether a schema, or one below it, has exactly this reference.
func refersTo(s *object, ref string) bool {
	if s == nil {
		return false
	}
	if r, ok := s.text("$ref"); ok && r == ref {
		return true
	}
	found := false
	_ = eachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*object); ok && !found {
			found = refersTo(o, ref)
		}
		return sub, nil
	})
	return found
}

// adopter takes a foreign schema into another one: its definitions move to the other's, under names that begin with name.
type adopter struct {
	w    *walker
	name string
	mine []string // the definitions that came from it
}

// movedPrefix begins a reference that has its new form but for this. A foreign schema may itself hold schemas with definitions
// of their own, whose references must not be taken for its.
const movedPrefix = "#/$moved/"

func (a *adopter) adopt(s *object) (*object, error) {
	s, err := a.move(s)
	if err != nil {
		return nil, err
	}
	settle := func(v any) {
		_ = rewriteRefs(v, func(ref string) (string, error) {
			return strings.Replace(ref, movedPrefix, defsPrefix, 1), nil
		})
	}
	for _, name := range a.mine {
		def, _ := a.w.defs.get(name)
		settle(def)
	}
	settle(s)
	return s, nil
}

// move moves the definitions of s, those of the schemas in it before, and s itself if it refers to itself.
func (a *adopter) move(s *object) (*object, error) {
	own, _ := s.get("$defs")
	defs, _ := own.(*object)
	if err := eachSub(s, a.moveInner); err != nil {
		return nil, err
	}
	moved := map[string]string{}
	if refersTo(s, "#") {
		moved["#"] = a.reserve(a.name)
	}
	s.delete("$defs")
	if defs == nil {
		defs = &object{}
	}
	for _, d := range defs.members {
		moved[defsPrefix+d.key] = a.reserve(a.name + "_" + d.key)
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
	for _, d := range defs.members {
		if err := rewriteRefs(d.value, to); err != nil {
			return nil, err
		}
		a.w.defs.set(moved[defsPrefix+d.key], d.value)
	}
	if err := rewriteRefs(s, to); err != nil {
		return nil, err
	}
	if name, ok := moved["#"]; ok {
		a.w.defs.set(name, s)
		s = newObject("$ref", movedPrefix+name)
	}
	return s, nil
}

// moveInner moves the definitions of the schemas below one, if they have any.
func (a *adopter) moveInner(_ string, v any) (any, error) {
	s, ok := v.(*object)
	if !ok {
		return v, nil
	}
	if s.has("$defs") {
		return a.move(s)
	}
	return s, eachSub(s, a.moveInner)
}

// reserve takes a free name among the definitions.
func (a *adopter) reserve(name string) string {
	name = a.w.freeName(name)
	a.w.defs.set(name, &object{})
	a.mine = append(a.mine, name)
	return name
}

// rewriteRefs replaces each reference in a schema by what to makes of it.
func rewriteRefs(v any, to func(ref string) (string, error)) error {
	s, ok := v.(*object)
	if !ok {
		return nil
	}
	if ref, ok := s.text("$ref"); ok {
		moved, err := to(ref)
		if err != nil {
			return err
		}
		s.set("$ref", moved)
	}
	return eachSub(s, func(_ string, sub any) (any, error) { return sub, rewriteRefs(sub, to) })
}

// inliner writes definitions out where they are used, other than those that hold themselves.
type inliner struct {
	defs      *object
	recursive map[string]bool
	kept      *object
	done      map[string]*object
	nodes     int
}

// inlineRefs returns root with its definitions written out, and those that remain.
func inlineRefs(root, defs *object) (*object, *object, error) {
	in := &inliner{defs: defs, recursive: map[string]bool{}, kept: &object{}, done: map[string]*object{}}
	for _, d := range defs.members {
		in.recursive[d.key] = in.reaches(d.key, d.key, map[string]bool{})
	}
	root, err := in.inline(root)
	return root, in.kept, err
}

// reaches says whether the definition from refers, directly or not, to the definition to.
func (in *inliner) reaches(from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	def, _ := in.defs.get(from)
	s, _ := def.(*object)
	return s != nil && in.refersInto(s, to, seen)
}

func (in *inliner) refersInto(s *object, to string, seen map[string]bool) bool {
	if ref, ok := s.text("$ref"); ok {
		name := strings.TrimPrefix(ref, defsPrefix)
		if name == to || in.reaches(name, to, seen) {
			return true
		}
	}
	found := false
	_ = eachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*object); ok && !found {
			found = in.refersInto(o, to, seen)
		}
		return sub, nil
	})
	return found
}

// inline is s with its references replaced. s itself stays as it is.
func (in *inliner) inline(s *object) (*object, error) {
	if in.nodes++; in.nodes > maxNodes {
		return nil, errTooLarge
	}
	s = s.clone()
	if ref, ok := s.text("$ref"); ok {
		def, err := in.definition(strings.TrimPrefix(ref, defsPrefix))
		if err != nil || def == nil {
			return s, err
		}
		s.delete("$ref")
		own := s.members
		s = def.clone()
		for _, m := range own { // what stands beside a reference, such as a description, counts
			s.set(m.key, m.value)
		}
		return s, nil
	}
	for i, m := range s.members { // eachSub writes into the lists and maps it visits
		switch v := m.value.(type) {
		case *object:
			s.members[i].value = v.clone()
		case []any:
			s.members[i].value = append([]any(nil), v...)
		}
	}
	return s, eachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*object); ok {
			return in.inline(o)
		}
		return sub, nil
	})
}

// definition is a definition to write out, itself written out; nil for one that stays, which is then kept.
func (in *inliner) definition(name string) (*object, error) {
	def, _ := in.defs.get(name)
	s, ok := def.(*object)
	if !ok {
		return nil, fmt.Errorf("the schema refers to the definition %q, which it does not have", name)
	}
	if !in.recursive[name] {
		return in.inline(s)
	}
	if !in.kept.has(name) {
		in.kept.set(name, &object{}) // before what refers back to it
		full, err := in.inline(s)
		if err != nil {
			return nil, err
		}
		in.kept.set(name, full)
	}
	return nil, nil
}
