package gotype

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// fieldTags is what a field's schema tag adds: `jsonschema:"..."`.
//
// A tag is a list of keyword=value and flags, by commas:
// `jsonschema:"description=How many days,minimum=1"`. A tag, or its beginning,
// without a keyword is the description: `jsonschema:"City name"`. A comma that
// no keyword or flag follows belongs to the text before it; \, always does. A
// keyword may be repeated where it lists values: enum, examples.
type fieldTags struct {
	keywords                   []keyword
	required, nullable, hidden bool
}

type keyword struct{ name, value string }

// keywordTypes has the types of JSON that a keyword is about: "" is all. In an
// array's tag a keyword about other types is about the items.
var keywordTypes = map[string][]string{
	"title": nil, "description": nil, "type": nil, "enum": nil, "const": nil,
	"default": nil, "example": nil,
	"format": {"string"}, "pattern": {"string"},
	"minLength": {"string"}, "maxLength": {"string"},
	"minimum": numeric, "maximum": numeric, "multipleOf": numeric,
	"exclusiveMinimum": numeric, "exclusiveMaximum": numeric,
	"minItems": {"array"}, "maxItems": {"array"}, "uniqueItems": {"array"},
	"minProperties": {"object"}, "maxProperties": {"object"},
	"deprecated": nil,
}

var numeric = []string{"integer", "number"}

// flags are keywords that may stand without a value.
var flags = []string{"required", "nullable", "uniqueItems", "deprecated"}

var (
	tagWord = regexp.MustCompile(`^\s*([A-Za-z_]+)=`)
	commas  = strings.NewReplacer("\x00", ",")
)

func parseTags(tag reflect.StructTag) (fieldTags, error) {
	var t fieldTags
	if tag.Get("jsonschema_extras") != "" {
		return t, errors.New(
			"the tag jsonschema_extras is not supported: write Spec.Input or Spec.Output by hand")
	}
	text := tag.Get("jsonschema")
	if !utf8.ValidString(string(tag)) {
		return t, errors.New("its tag is not valid UTF-8")
	}
	if text == "-" {
		t.hidden = true
		return t, nil
	}
	for i, item := range strings.Split(strings.ReplaceAll(text, `\,`, "\x00"), ",") {
		if err := t.add(i, item); err != nil {
			return t, err
		}
	}
	if d := tag.Get("jsonschema_description"); d != "" {
		t.keywords = append(t.keywords, keyword{"description", d})
	}
	return t, t.once()
}

// once returns the error of a keyword that is there twice, of which one would
// be dropped.
func (t *fieldTags) once() error {
	for i, k := range t.keywords {
		same := func(other keyword) bool { return other.name == k.name }
		if k.name != "enum" && k.name != "example" && slices.ContainsFunc(t.keywords[:i], same) {
			return fmt.Errorf(
				`the schema tag has %s twice: leave one out (a comma inside of a text is written `+
					`\, before a keyword)`, k.name)
		}
	}
	return nil
}

// add reads the i-th of the pieces between commas.
func (t *fieldTags) add(i int, item string) error {
	var last *keyword
	if n := len(t.keywords); n > 0 {
		last = &t.keywords[n-1]
	}
	inProse := last != nil && (last.name == "description" || last.name == "title")
	name := strings.TrimSpace(item)
	// Prose has a space after a comma.
	if slices.Contains(flags, name) && (!inProse || name == item) {
		t.flag(name)
		return nil
	}
	if m := tagWord.FindStringSubmatch(item); m != nil {
		if _, known := keywordTypes[m[1]]; known {
			t.keywords = append(t.keywords, keyword{m[1], commas.Replace(item[len(m[0]):])})
			return nil
		}
		if i == 0 || !inProse {
			return fmt.Errorf(
				"the schema tag has the unknown keyword %q (a description that begins so is "+
					"written description=...)", m[1])
		}
	}
	switch {
	case i == 0 && name == "":
	case i == 0:
		t.keywords = append(t.keywords, keyword{"description", commas.Replace(item)})
	case last == nil:
		return fmt.Errorf("the schema tag has %q after a flag, where a keyword is expected", name)
	case last.name == "enum":
		return fmt.Errorf(
			`the schema tag has %q after enum=%s: write enum=%s,enum=%s for two values, or \, `+
				`for a comma inside of one`,
			name, last.value, last.value, name)
	default:
		last.value += "," + commas.Replace(item)
	}
	return nil
}

func (t *fieldTags) flag(name string) {
	switch name {
	case "required":
		t.required = true
	case "nullable":
		t.nullable = true
	default:
		t.keywords = append(t.keywords, keyword{name, "true"})
	}
}

// tight reports whether the tag demands something.
func (t *fieldTags) tight() bool {
	return slices.ContainsFunc(t.keywords, func(k keyword) bool {
		return !slices.Contains(
			[]string{"title", "description", "default", "example", "deprecated"}, k.name)
	})
}

// apply writes the keywords into a schema.
func (t *fieldTags) apply(s *jsontree.Object) error {
	for _, k := range t.keywords {
		target := s
		typ, _ := s.Text("type")
		about := keywordTypes[k.name]
		if items, ok := s.Get("items"); ok && typ == "array" &&
			(k.name == "enum" || about != nil && !slices.Contains(about, typ)) {
			target, _ = items.(*jsontree.Object)
			typ = baseType(target)
		}
		if target == nil || len(about) > 0 && typ != "" && !slices.Contains(about, typ) {
			return fmt.Errorf("the schema tag's %s does not go with a JSON %s", k.name, typ)
		}
		if err := k.apply(target, typ); err != nil {
			return fmt.Errorf("the schema tag's %s=%s: %w", k.name, k.value, err)
		}
	}
	return nil
}

// baseType returns the type of a schema, null aside.
func baseType(s *jsontree.Object) string {
	if s == nil {
		return ""
	}
	if typ, ok := s.Text("type"); ok {
		return typ
	}
	v, _ := s.Get("type")
	var types []string
	if err := json.Unmarshal(jsontree.Text(v), &types); err != nil || len(types) == 0 {
		return ""
	}
	return types[0]
}

func (k keyword) apply(s *jsontree.Object, typ string) error {
	switch k.name {
	case "title", "description", "format", "pattern":
		s.Set(k.name, k.value)
	case "type":
		if len(s.Members) > 0 && typ != k.value {
			return errors.New("the type follows from the field's")
		}
		s.Set(k.name, k.value)
	case "enum", "example":
		v, err := k.literal(typ)
		if err != nil {
			return err
		}
		name := map[string]string{"enum": "enum", "example": "examples"}[k.name]
		list, _ := s.Get(name)
		values, _ := list.([]any)
		s.Set(name, append(values, v))
	case "const", "default":
		v, err := k.literal(typ)
		if err != nil {
			return err
		}
		s.Set(k.name, v)
	case "uniqueItems", "deprecated":
		if k.value != "true" && k.value != "false" {
			return errors.New("true or false is expected")
		}
		s.Set(k.name, json.RawMessage(k.value))
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		n, ok := new(big.Int).SetString(k.value, 10)
		if !ok || n.Sign() < 0 || !n.IsInt64() {
			return errors.New("a whole number is expected")
		}
		s.Set(k.name, json.RawMessage(n.String()))
	default:
		return k.bound(s)
	}
	return nil
}

// bound sets a number that bounds another one. The bounds of the Go type stay
// where they are closer.
func (k keyword) bound(s *jsontree.Object) error {
	n, err := k.number()
	if err != nil {
		return err
	}
	if old, ok := s.Get(k.name); ok {
		raw, _ := old.(json.RawMessage)
		was, _ := new(big.Rat).SetString(string(raw))
		is, _ := new(big.Rat).SetString(string(n))
		if k.name == "minimum" && is.Cmp(was) < 0 || k.name == "maximum" && is.Cmp(was) > 0 {
			return nil
		}
	}
	s.Set(k.name, n)
	return nil
}

func (k keyword) number() (json.RawMessage, error) {
	d, err := strictjson.Parse(k.value, strictjson.Strict(false))
	if _, ok := d.Root.(strictjson.Number); err != nil || !ok {
		return nil, errors.New("a number is expected")
	}
	return json.RawMessage(strings.TrimSpace(k.value)), nil
}

// literal returns a value of the schema's type as JSON.
func (k keyword) literal(typ string) (json.RawMessage, error) {
	switch typ {
	case "string":
		return jsontree.Encode(k.value)
	case "integer", "number":
		return k.number()
	case "boolean":
		if k.value != "true" && k.value != "false" {
			return nil, errors.New("true or false is expected")
		}
		return json.RawMessage(k.value), nil
	}
	// an array, an object or anything: JSON, or else a string where that is
	// possible
	if _, err := strictjson.Parse(k.value, strictjson.Strict(false)); err == nil {
		return json.RawMessage(k.value), nil
	}
	if typ != "" {
		return nil, fmt.Errorf("a JSON %s is expected", typ)
	}
	return jsontree.Encode(k.value)
}
