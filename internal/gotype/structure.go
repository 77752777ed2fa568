package gotype

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// structure returns the schema of a struct: its fields as encoding/json sees
// them, and no others.
//
// A field is required unless it is tagged omitempty or omitzero, is a pointer,
// is promoted from an embedded pointer, or, in arguments, has a default. A
// schema tag of "required" makes it required all the same. A pointer takes
// null, and so does a field tagged "nullable".
func (w *walker) structure(t reflect.Type, at string, addressable bool) (*jsontree.Object, error) {
	properties := &jsontree.Object{}
	var required []string
	var names strictjson.Names
	for _, f := range jsonFields(t) {
		at := at + "." + f.goName
		if other, alike := names.Alike(f.name); alike && w.dir == reading {
			return nil, fmt.Errorf(
				"%sits name %q differs from %q only by case, and encoding/json would mix them up",
				place(at), f.name, other)
		}
		if f.stuck && w.dir == reading {
			return nil, fmt.Errorf(
				"%sencoding/json can't set a field of an embedded pointer to an unexported struct",
				place(at))
		}
		tags, err := parseTags(f.tag)
		if err != nil {
			return nil, fmt.Errorf("%s%w", place(at), err)
		}
		if tags.hidden {
			if w.dir == writing {
				return nil, fmt.Errorf(
					`%sjsonschema:"-" would hide from the schema what is in the result: `+
						`use json:"-"`, place(at))
			}
			continue
		}
		s, optional, err := w.property(t, f, tags, at, addressable || f.loose)
		if err != nil {
			return nil, err
		}
		properties.Set(f.name, s)
		if tags.required || !optional {
			required = append(required, f.name)
		}
	}
	s := jsontree.New("type", "object", "properties", properties)
	if required != nil {
		s.Set("required", required)
	}
	s.Set("additionalProperties", json.RawMessage("false"))
	return s, nil
}

// property returns the schema of a field, and whether the field may be absent.
func (w *walker) property(
	outer reflect.Type, f field, tags fieldTags, at string, addressable bool,
) (s *jsontree.Object, optional bool, err error) {
	s, null, err := w.nullable(f.typ, at, addressable)
	if err != nil {
		return nil, false, err
	}
	if f.quoted {
		s = quotedForm(s)
	}
	if err := tags.apply(s); err != nil {
		return nil, false, fmt.Errorf("%s%w", place(at), err)
	}
	if target(f.typ) == durationType {
		keepUnit(s)
	}
	w.tight = w.tight || tags.tight() || tags.required && (f.omit || f.loose)
	optional = f.omit || f.loose || f.typ.Kind() == reflect.Pointer
	v, hasDefault := s.Get("default")
	if null || tags.nullable {
		s = orNull(s)
	} else {
		s = w.orNil(f.typ, s)
	}
	if w.dir == reading && hasDefault {
		optional = true
		err = w.keepDefault(outer, f.name, jsontree.Text(v), s)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s%w", place(at), err)
	}
	return s, optional, nil
}

// keepUnit adds what the number counts to the description of a time.Duration,
// which may be the field's own.
func keepUnit(s *jsontree.Object) {
	own, _ := s.Text("description")
	switch {
	case own == "":
		s.Set("description", schema.InNanoseconds)
	case !strings.Contains(own, schema.Nanoseconds):
		s.Set("description", own+" ("+schema.InNanoseconds+")")
	}
}

// keepDefault remembers a default, which must fit the schema of its field as
// far as that can be seen from here.
func (w *walker) keepDefault(
	outer reflect.Type, name string, value json.RawMessage, s *jsontree.Object,
) error {
	// A schema that does not compile refers to definitions, which are not
	// complete yet.
	if c, err := schema.Compile(s.Raw()); err == nil {
		if err := c.Validate(value); err != nil {
			return fmt.Errorf("the default %s does not fit: %w", value, err)
		}
	}
	// A type may be used twice.
	known := func(e fieldDefault) bool { return e.name == name }
	if !slices.ContainsFunc(w.defaults[outer], known) {
		w.defaults[outer] = append(w.defaults[outer], fieldDefault{name, value})
	}
	return nil
}

// quotedForm returns the schema of a scalar with the json tag's option
// "string".
func quotedForm(s *jsontree.Object) *jsontree.Object {
	pattern := map[string]string{
		"boolean": `^(true|false)$`,
		"integer": `^-?(0|[1-9][0-9]*)$`,
		"number":  `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`,
		"string":  `^".*"$`,
	}
	typ, _ := s.Text("type")
	return jsontree.New("type", "string", "pattern", pattern[typ])
}
