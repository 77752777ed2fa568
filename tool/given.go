package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Where a JSON Schema holds other schemas (JSON Schema 2020-12, core, section 10; "definitions" is its older form of $defs).
var (
	schemaIn   = []string{"not", "if", "then", "else", "contains", "propertyNames", "items", "contentSchema"}
	schemaOrNo = []string{"additionalProperties", "unevaluatedProperties", "unevaluatedItems"} // often a boolean
	schemasIn  = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemasBy  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// eachSub replaces each schema right below s by what f makes of it.
func eachSub(s *object, f func(key string, sub any) (any, error)) error {
	for i := range s.members {
		m := &s.members[i]
		var err error
		switch v := m.value.(type) {
		case []any:
			if slices.Contains(schemasIn, m.key) {
				for j := range v {
					if v[j], err = f(m.key, v[j]); err != nil {
						return err
					}
				}
			}
		default:
			by, ok := v.(*object)
			switch {
			case ok && slices.Contains(schemasBy, m.key):
				for j := range by.members {
					if by.members[j].value, err = f(m.key, by.members[j].value); err != nil {
						return err
					}
				}
			case slices.Contains(schemaIn, m.key), slices.Contains(schemaOrNo, m.key):
				if m.value, err = f(m.key, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cleanSchema takes out what providers refuse and what only names a schema: $schema, $id, and schemas that are booleans.
func cleanSchema(key string, v any) (any, error) {
	switch v := v.(type) {
	case *object:
		v.delete("$schema")
		v.delete("$id")
		return v, eachSub(v, cleanSchema)
	case json.RawMessage:
		switch string(v) {
		case "true", "false":
			if slices.Contains(schemaOrNo, key) {
				return v, nil
			}
			if string(v) == "true" {
				return &object{}, nil
			}
			return newObject("not", &object{}), nil
		}
	}
	return nil, errors.New("a JSON Schema is an object")
}

// parseSchemaNode reads a schema and cleans it.
func parseSchemaNode(text json.RawMessage) (*object, error) {
	if _, err := parseSchema(text); err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	n, err := parseNode(text)
	if err != nil {
		return nil, err
	}
	n, err = cleanSchema("", n)
	if err != nil {
		return nil, err
	}
	s, ok := n.(*object)
	if !ok {
		return nil, errors.New("a JSON Schema is an object")
	}
	return s, nil
}

// givenInput checks a schema of arguments that was written by hand or came over a wire, and gives it the form that every
// provider takes: an object's, with properties. None at all, null and {} are one without properties.
func givenInput(text json.RawMessage) (json.RawMessage, error) {
	if isNull(text) {
		text = json.RawMessage("{}")
	}
	s, err := parseSchemaNode(text)
	if err != nil {
		return nil, err
	}
	if s, err = hoistGiven(s); err != nil {
		return nil, err
	}
	root := newObject("type", "object")
	if typ, ok := s.get("type"); ok && string(nodeText(typ)) != `"object"` && string(nodeText(typ)) != `["object"]` {
		return nil, fmt.Errorf("arguments are an object, and the schema's type is %s", nodeText(typ))
	}
	s.delete("type")
	root.members = append(root.members, s.members...)
	if p, ok := root.get("properties"); ok {
		if raw, _ := p.(json.RawMessage); string(raw) == "null" {
			root.delete("properties")
		}
	}
	if !root.has("properties") {
		root.set("properties", &object{})
	}
	return root.raw(), nil
}

// hoistGiven replaces a root that is a mere reference to one of its definitions, as generators write it.
func hoistGiven(s *object) (*object, error) {
	ref, ok := s.text("$ref")
	if !ok {
		return s, nil
	}
	for _, key := range []string{"$defs", "definitions"} {
		name, local := strings.CutPrefix(ref, "#/"+key+"/")
		all, _ := s.get(key)
		defs, isObject := all.(*object)
		if !local || !isObject {
			continue
		}
		def, _ := defs.get(name)
		target, isObject := def.(*object)
		if !isObject || target.has("$ref") {
			break
		}
		root := target.clone()
		for _, m := range s.members {
			if m.key != "$ref" {
				root.set(m.key, m.value)
			}
		}
		return root, nil
	}
	return nil, fmt.Errorf("the schema's root refers to %q: write it out", ref)
}

// givenOutput checks a schema of results. None at all and null take everything.
func givenOutput(text json.RawMessage) (json.RawMessage, error) {
	if isNull(text) {
		return nil, nil
	}
	s, err := parseSchemaNode(text)
	if err != nil {
		return nil, err
	}
	return s.raw(), nil
}

// isNull says whether a JSON text is absent or null.
func isNull(text json.RawMessage) bool {
	t := bytes.TrimSpace(text)
	return len(t) == 0 || string(t) == "null"
}
