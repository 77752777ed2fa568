package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/modeltext"
)

// cleanSchema takes out what providers refuse and what only names a schema:
// $schema, $id, and schemas that are booleans.
func cleanSchema(key string, v any) (any, error) {
	switch v := v.(type) {
	case *jsontree.Object:
		v.Delete("$schema")
		v.Delete("$id")
		return v, jsontree.EachSub(v, cleanSchema)
	case json.RawMessage:
		switch string(v) {
		case "true", "false":
			if slices.Contains(jsontree.SchemaOrNo, key) {
				return v, nil
			}
			if string(v) == "true" {
				return &jsontree.Object{}, nil
			}
			return jsontree.New("not", &jsontree.Object{}), nil
		}
	}
	return nil, errors.New("a JSON Schema is an object")
}

// ParseNode reads a schema and cleans it.
func ParseNode(text json.RawMessage) (*jsontree.Object, error) {
	if !bytes.Equal(modeltext.CleanJSON(text), text) {
		return nil, errors.New(
			"the schema has invalid UTF-8, or an escape of half a surrogate pair: write the " +
				"character itself")
	}
	if string(bytes.TrimSpace(text)) == "false" {
		return nil, errors.New(
			"the schema is false, which no value fits: leave it out to take every value, or no " +
				"arguments")
	}
	if _, err := parse(text); err != nil {
		return nil, err
	}
	n, err := jsontree.Parse(text)
	if err != nil {
		return nil, err
	}
	n, err = cleanSchema("", n)
	if err != nil {
		return nil, err
	}
	s, ok := n.(*jsontree.Object)
	if !ok {
		return nil, errors.New("a JSON Schema is an object")
	}
	return s, nil
}

// GivenInput checks a schema of arguments that was written by hand or came over
// a wire, and gives it the form that every provider takes: an object's, with
// properties. None at all, null and {} are one without properties.
func GivenInput(text json.RawMessage) (json.RawMessage, error) {
	if IsNull(text) {
		text = json.RawMessage("{}")
	}
	s, err := ParseNode(text)
	if err != nil {
		return nil, err
	}
	if s, err = hoistGiven(s); err != nil {
		return nil, err
	}
	root := jsontree.New("type", "object")
	if typ, ok := s.Get("type"); ok && string(jsontree.Text(typ)) != `"object"` &&
		string(jsontree.Text(typ)) != `["object"]` {
		return nil, fmt.Errorf("arguments are an object, and the schema's type is %s",
			jsontree.Text(typ))
	}
	s.Delete("type")
	root.Members = append(root.Members, s.Members...)
	if p, ok := root.Get("properties"); ok {
		if raw, _ := p.(json.RawMessage); string(raw) == "null" {
			root.Delete("properties")
		}
	}
	if !root.Has("properties") {
		root.Set("properties", &jsontree.Object{})
	}
	return root.Raw(), nil
}

// hoistGiven replaces a root that is a mere reference to one of its
// definitions, as generators write it.
func hoistGiven(s *jsontree.Object) (*jsontree.Object, error) {
	ref, ok := s.Text("$ref")
	if !ok {
		return s, nil
	}
	for _, key := range []string{"$defs", "definitions"} {
		name, local := strings.CutPrefix(ref, "#/"+key+"/")
		all, _ := s.Get(key)
		defs, isObject := all.(*jsontree.Object)
		if !local || !isObject {
			continue
		}
		def, _ := defs.Get(name)
		target, isObject := def.(*jsontree.Object)
		if !isObject || target.Has("$ref") {
			break
		}
		root := target.Clone()
		for _, m := range s.Members {
			if m.Key != "$ref" {
				root.Set(m.Key, m.Value)
			}
		}
		return root, nil
	}
	return nil, fmt.Errorf("the schema's root refers to %q: write it out", ref)
}

// GivenOutput checks a schema of results. None at all and null take everything.
func GivenOutput(text json.RawMessage) (json.RawMessage, error) {
	if IsNull(text) {
		return nil, nil
	}
	s, err := ParseNode(text)
	if err != nil {
		return nil, err
	}
	return s.Raw(), nil
}

// IsNull reports whether a JSON text is absent or null.
func IsNull(text json.RawMessage) bool {
	t := bytes.TrimSpace(text)
	return len(t) == 0 || string(t) == "null"
}
