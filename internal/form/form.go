// Package form is what a person reads of JSON, and fills in to make some: the
// fields of a plain HTML form for a JSON Schema, the value that was filled in,
// and JSON in a form that can't be taken for something else.
//
// It writes no HTML, and checks no answer: whether a value fits its schema is
// for package schema to say, and Blame shows what it said beside the fields.
package form

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Kind is how a field is filled in.
type Kind string

// The kinds.
const (
	Line   Kind = "line"   // a short text
	Text   Kind = "text"   // a text of several lines
	Number Kind = "number" // a number, in digits
	Choice Kind = "choice" // one of the Options
	JSON   Kind = "json"   // a JSON value, as it is written
)

// Field is one field of a form.
type Field struct {
	Name   string // of the form's field; it depends on the place in the schema alone
	Path   string // a JSON Pointer into the answer
	Label  string
	Hint   string
	Kind   Kind
	Needed bool // left empty it can't fit
	// InputMode is, of a Number, the keyboard that a phone shows: one without a
	// minus sign only where none fits.
	InputMode string
	// Options are those of a Choice.
	Options []Option
	Value   string // what was filled in
	Fault   string // what is wrong with it

	member   string // of the object that is asked for
	required bool   // the object needs the member
	null     bool   // null fits
}

// Option is one value of a Choice. Value is its number.
type Option struct {
	Value, Label string

	json json.RawMessage
}

// Form has the fields for an answer. It belongs to one request.
type Form struct {
	Fields []*Field

	object bool // the answer is an object, of which each field is a member
}

// maxFields is how many fields a form has at most. A larger object is written
// as JSON.
const maxFields = 40

// Of returns the form for a schema. What has no field of its own (an object with
// alternatives, a list, what the schema leaves open) is written as JSON.
func Of(schema json.RawMessage) *Form {
	root := parse(schema)
	if members, ok := properties(root); ok {
		f := &Form{object: true}
		for i, m := range members {
			field := fieldOf(m.node)
			field.Name, field.member = "f"+strconv.Itoa(i), m.name
			field.Path, field.required = "/"+pointer(m.name), m.required
			if field.Label == "" {
				field.Label = Visible(m.name)
			}
			field.Needed = m.required && !field.null && field.Needed
			f.Fields = append(f.Fields, field)
		}
		return f
	}
	field := fieldOf(root)
	field.Name, field.required = "f", true
	if field.Label == "" {
		field.Label = "Answer"
	}
	if field.Kind == Line {
		field.Kind = Text // the answer to a question may take some lines
	}
	field.Needed = field.Needed && !field.null
	return &Form{Fields: []*Field{field}}
}

// parse reads a schema, its definitions written out. What can't be read is a
// schema that takes everything.
func parse(schema json.RawMessage) *jsontree.Object {
	v, err := jsontree.Parse(schema)
	root, ok := v.(*jsontree.Object)
	if err != nil || !ok {
		return jsontree.New()
	}
	if v, _ := root.Get("$defs"); v != nil {
		if defs, ok := v.(*jsontree.Object); ok {
			if out, _, err := jsontree.InlineRefs(root, defs); err == nil {
				return out
			}
		}
	}
	return root
}

type property struct {
	name     string
	node     *jsontree.Object
	required bool
}

// properties returns the members of a schema that asks for an object and for
// nothing beside its properties.
func properties(root *jsontree.Object) (all []property, ok bool) {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not", "if", "$ref",
		"patternProperties", "enum", "const", "minProperties"} {
		if root.Has(keyword) {
			return nil, false
		}
	}
	v, _ := root.Get("properties")
	members, _ := v.(*jsontree.Object)
	if kind, _ := root.Text("type"); kind != "object" || members == nil ||
		len(members.Members) == 0 || len(members.Members) > maxFields {
		return nil, false
	}
	needed := texts(root, "required")
	for _, m := range members.Members {
		node, ok := m.Value.(*jsontree.Object)
		if !ok {
			node = jsontree.New()
		}
		all = append(all, property{m.Key, node, slices.Contains(needed, m.Key)})
	}
	// What is needed and has no field can't be filled in.
	for _, name := range needed {
		if !members.Has(name) {
			return nil, false
		}
	}
	return all, true
}

// fieldOf returns the field for a schema.
func fieldOf(node *jsontree.Object) *Field {
	f := &Field{Kind: JSON, Needed: true}
	f.Label, _ = node.Text("title")
	f.Hint, _ = node.Text("description")
	node, f.null = withoutNull(node)
	if hint, ok := node.Text("description"); ok {
		f.Hint = hint
	}
	f.Label, f.Hint = Visible(f.Label), Visible(f.Hint)
	kind := typeOf(node)
	switch {
	case node.Has("enum"):
		v, _ := node.Get("enum")
		values, _ := v.([]any)
		for _, v := range values {
			f.choose(jsontree.Text(v))
		}
		f.Kind = Choice
	case node.Has("const"):
		v, _ := node.Get("const")
		f.choose(jsontree.Text(v))
		f.Kind = Choice
	case combined(node):
	case kind == "boolean":
		f.Kind = Choice
		f.Options = []Option{{"0", "Yes", json.RawMessage("true")},
			{"1", "No", json.RawMessage("false")}}
	case kind == "string":
		f.Kind = Line
		if n, ok := number(node, "maxLength"); ok && n > 200 {
			f.Kind = Text
		}
		least, ok := number(node, "minLength")
		f.Needed = ok && least > 0
	case kind == "integer" || kind == "number":
		f.Kind = Number
		if least, ok := number(node, "minimum"); ok && least >= 0 {
			f.InputMode = map[bool]string{true: "numeric", false: "decimal"}[kind == "integer"]
		}
	}
	return f
}

func (f *Field) choose(value json.RawMessage) {
	label := string(value)
	switch {
	case len(value) > 0 && value[0] == '"':
		label = strictjson.Unquote(value)
	case label == "true":
		label = "Yes"
	case label == "false":
		label = "No"
	case label == "null":
		label = "None"
	}
	f.Options = append(f.Options, Option{strconv.Itoa(len(f.Options)), Visible(label), value})
}

// withoutNull returns a schema without the null that it takes beside something
// else, as "type": ["string", "null"] and as an alternative.
func withoutNull(node *jsontree.Object) (*jsontree.Object, bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		v, _ := node.Get(keyword)
		if all, ok := v.([]any); ok && len(all) == 2 {
			for i, v := range all {
				no, _ := v.(*jsontree.Object)
				other, _ := all[1-i].(*jsontree.Object)
				if no != nil && other != nil && typeOf(no) == "null" {
					return other, true
				}
			}
		}
	}
	types := texts(node, "type")
	if len(types) != 2 || !slices.Contains(types, "null") {
		return node, false
	}
	out := node.Clone()
	out.Set("type", types[(slices.Index(types, "null")+1)%2])
	return out, true
}

func combined(node *jsontree.Object) bool {
	return slices.ContainsFunc([]string{"allOf", "anyOf", "oneOf", "not", "if", "$ref"}, node.Has)
}

func typeOf(node *jsontree.Object) string {
	kind, _ := node.Text("type")
	return kind
}

// texts returns the strings of a list.
func texts(node *jsontree.Object, key string) (all []string) {
	v, _ := node.Get(key)
	list, _ := v.([]any)
	for _, v := range list {
		if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 && raw[0] == '"' {
			all = append(all, strictjson.Unquote(raw))
		}
	}
	return all
}

func number(node *jsontree.Object, key string) (float64, bool) {
	v, _ := node.Get(key)
	raw, _ := v.(json.RawMessage)
	var n float64
	return n, len(raw) > 0 && json.Unmarshal(raw, &n) == nil
}
