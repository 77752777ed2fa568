package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/tool"
)

// What the tools' schemas tell of a list before it begins. Arguments without
// references are checked as those of any call. Those with references are
// followed as far as properties, items and types lead: what a schema leaves open
// is taken, and is checked when the step begins.

// checkTools checks the steps of a list by their tools.
func (s *Set) checkTools(l *List, all needs) error {
	outputs := map[string]*jsontree.Object{} // by step; nil: any
	for i := range l.Steps {
		spec, known := s.box.Spec(l.Steps[i].Tool)
		if !known {
			return s.unknown(&l.Steps[i])
		}
		outputs[l.Steps[i].Name] = node(spec.Output)
	}
	for i := range l.Steps {
		step := &l.Steps[i]
		spec, _ := s.box.Spec(step.Tool)
		args := all[step.Name].args
		if len(references(args)) == 0 {
			if _, err := s.box.Check(tool.Call{Tool: step.Tool, Arguments: jsontree.Text(args)}); err != nil {
				return fmt.Errorf("step %q: %w", step.Name, err)
			}
			continue
		}
		if err := fits(args, node(spec.Input), outputs); err != nil {
			return fmt.Errorf("step %q: %w", step.Name, err)
		}
	}
	if len(l.Output) == 0 {
		return nil
	}
	out, err := tree(l.Output)
	if err == nil {
		err = fits(out, nil, outputs)
	}
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (s *Set) unknown(step *Step) error {
	hint := ""
	if near, ok := schema.Nearest(step.Tool, s.names); ok {
		hint = fmt.Sprintf(" Did you mean %s?", near)
	}
	return fmt.Errorf("step %q: there is no tool %q.%s", step.Name, excerpt.Of(step.Tool), hint)
}

// node reads a schema; nil: it is none that can be followed, and takes any value.
func node(raw json.RawMessage) *jsontree.Object {
	v, err := tree(raw)
	if err != nil {
		return nil
	}
	o, _ := v.(*jsontree.Object)
	return followed(o)
}

// followed returns a schema that can be followed: not one that is put together
// of others.
func followed(o *jsontree.Object) *jsontree.Object {
	if o == nil {
		return nil
	}
	for _, key := range []string{"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if"} {
		if o.Has(key) {
			return nil
		}
	}
	return o
}

// fits returns why a value can't fit a schema, as far as it tells.
func fits(v any, s *jsontree.Object, outputs map[string]*jsontree.Object) error {
	if pointer, is := reference(v); is {
		return refers(pointer, s, outputs)
	}
	var found string
	switch v := v.(type) {
	case *jsontree.Object:
		found = "object"
		for _, m := range v.Members {
			sub, may := below(s, m.Key)
			if !may {
				return fmt.Errorf("its tool has no parameter %q there", excerpt.Of(m.Key))
			}
			if err := fits(m.Value, sub, outputs); err != nil {
				return fmt.Errorf("%s: %w", m.Key, err)
			}
		}
		for _, name := range required(s) {
			if !v.Has(name) {
				return fmt.Errorf("the parameter %q is missing", name)
			}
		}
	case []any:
		found = "array"
		for i := range v {
			sub, _ := below(s, strconv.Itoa(i))
			if err := fits(v[i], sub, outputs); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case json.RawMessage:
		found = kindOf(v)
	}
	if want := types(s); !meet(want, []string{found}) {
		return fmt.Errorf("it is of type %s, and its tool takes %s", found, list(want))
	}
	return nil
}

// refers returns why a reference leads nowhere, or to what the schema never
// takes. What stands in the input is known when the workflow begins.
func refers(pointer string, want *jsontree.Object, outputs map[string]*jsontree.Object) error {
	step, rest, err := stepOf(pointer)
	if err != nil || step == "" {
		return err
	}
	s := outputs[step]
	for _, token := range rest {
		may := true
		if s, may = below(s, token); !may {
			return fmt.Errorf("it refers to %q, and what step %q comes to never has that", pointer, step)
		}
	}
	if !meet(types(want), types(s)) {
		return fmt.Errorf("it refers to %q, which is of type %s, and its tool takes %s", pointer,
			list(types(s)), list(types(want)))
	}
	return nil
}

// below returns the schema of a member, or of an item; nil: any value. It is
// false where there never is one.
func below(s *jsontree.Object, token string) (sub *jsontree.Object, may bool) {
	if s == nil {
		return nil, true
	}
	if t := types(s); t != nil && !slices.Contains(t, "object") && !slices.Contains(t, "array") {
		return nil, false
	}
	if v, ok := s.Get("properties"); ok {
		if all, ok := v.(*jsontree.Object); ok && all.Has(token) {
			one, _ := all.Get(token)
			o, _ := one.(*jsontree.Object)
			return followed(o), true
		}
	}
	if v, ok := s.Get("items"); ok && !s.Has("prefixItems") {
		if _, err := strconv.Atoi(token); err == nil {
			o, _ := v.(*jsontree.Object)
			return followed(o), true
		}
	}
	others, ok := s.Get("additionalProperties")
	if closed, is := others.(json.RawMessage); ok && is && string(closed) == "false" &&
		!s.Has("patternProperties") {
		return nil, false
	}
	return nil, true
}

// types returns the types that a schema takes; nil: it doesn't tell.
func types(s *jsontree.Object) []string {
	if s == nil {
		return nil
	}
	v, _ := s.Get("type")
	return texts(v)
}

func required(s *jsontree.Object) []string {
	if s == nil {
		return nil
	}
	v, _ := s.Get("required")
	return texts(v)
}

// texts reads a string, or a list of them.
func texts(v any) (all []string) {
	one, many := "", []string(nil)
	switch raw := jsontree.Text(v); {
	case json.Unmarshal(raw, &one) == nil && one != "":
		return []string{one}
	case json.Unmarshal(raw, &many) == nil:
		return many
	}
	return nil
}

// meet reports whether a value may be of both; nil is any.
func meet(a, b []string) bool {
	if a == nil || b == nil {
		return true
	}
	return slices.ContainsFunc(a, func(t string) bool {
		return slices.ContainsFunc(b, func(u string) bool { return t == u || number(t) && number(u) })
	})
}

func number(t string) bool { return t == "number" || t == "integer" }

// kindOf returns the type of a value that is no object and no array.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func list(types []string) string { return strings.Join(types, " or ") }
