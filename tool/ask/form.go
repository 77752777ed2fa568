package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
)

// The bounds of a schema that a model writes, beside its length.
const (
	maxDepth   = 4  // of objects and lists within each other
	maxFields  = 30 // properties, all together
	maxValues  = 50 // of an enum
	maxMin     = 20 // the greatest minItems
	maxMinText = 2000
)

// node is a part of a form: a schema as far as a person can be asked by it. The
// other keywords of JSON Schema (references, alternatives, patterns) are
// refused. A person could not read off what is wanted, and nothing here could
// tell whether any answer fits.
type node struct {
	kind     string // its type
	about    string // its description, or else its title
	enum     []json.RawMessage
	least    bound
	most     bound
	step     float64 // multipleOf; zero: none
	minText  int
	minItems int
	format   string
	distinct bool // uniqueItems
	items    *node
	members  []member
	raw      json.RawMessage
}

// bound is how small, or how great, a number may be.
type bound struct {
	text string // as it was written; empty: there is none
	n    float64
	open bool // the number itself isn't in it
}

// member is a property of an object.
type member struct {
	name     string
	required bool
	node     *node
}

// form reads the schema of an answer, and returns what a person is asked for,
// and the schema that answers have to fit: the model's, with its objects
// closed.
func form(text string) ([]field, json.RawMessage, error) {
	fields, closed, err := readForm(text)
	if err != nil {
		return nil, nil, fmt.Errorf("schema: %w", err)
	}
	return fields, closed, nil
}

func readForm(text string) ([]field, json.RawMessage, error) {
	switch n := len(text); {
	case strings.TrimSpace(text) == "":
		return nil, nil, errors.New("it is empty, and says what the answer looks like")
	case n > maxSchema:
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d are taken", n, maxSchema)
	}
	root, err := schema.ParseNode(json.RawMessage(text))
	if err != nil {
		return nil, nil, err
	}
	root.Delete("$schema")
	r := &formReader{}
	n, err := r.node(root, "", 1)
	switch {
	case err != nil:
		return nil, nil, err
	case n.kind != "object":
		return nil, nil, fmt.Errorf("its type is %q, and has to be object", n.kind)
	case !slices.ContainsFunc(n.members, func(m member) bool { return m.required }):
		return nil, nil, errors.New("an empty answer would fit: list in required what has to " +
			"be answered")
	}
	sample, err := n.witness("")
	if err != nil {
		return nil, nil, err
	}
	closed := root.Raw()
	check, err := schema.Compile(closed)
	if err != nil {
		return nil, nil, err
	}
	if err := check.ValidateResult(sample); err != nil {
		return nil, nil, fmt.Errorf("no answer would fit it: %w", err)
	}
	return n.fields("", false), closed, nil
}

// formReader reads a form.
type formReader struct{ fields int }

// node reads a schema and closes it, if it is an object's. Path names it in
// errors.
func (r *formReader) node(o *jsontree.Object, path string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, at(path, "it is nested more than %d deep", maxDepth)
	}
	n := &node{}
	for _, m := range o.Members {
		if read := keywords[m.Key]; read == nil {
			return nil, at(path, "the keyword %q is not taken: say it in the description",
				excerpt.Of(m.Key))
		} else if err := read(n, m.Value); err != nil {
			return nil, at(path, "%s: %w", m.Key, err)
		}
	}
	if n.kind == "" {
		return nil, at(path, "type is missing")
	}
	if err := r.parts(n, o, path, depth); err != nil {
		return nil, err
	}
	n.raw = o.Raw()
	return n, nil
}

// parts reads the schemas within a schema.
func (r *formReader) parts(n *node, o *jsontree.Object, path string, depth int) error {
	properties, _ := object(o, "properties")
	items, hasItems := object(o, "items")
	switch {
	case n.kind == "object" && (properties == nil || len(properties.Members) == 0):
		return at(path, "it is an object without properties")
	case n.kind != "object" && properties != nil:
		return at(path, "its type is %s, and it has properties", n.kind)
	case n.kind == "array" && !hasItems:
		return at(path, "it is an array without items")
	case n.kind != "array" && hasItems:
		return at(path, "its type is %s, and it has items", n.kind)
	case n.kind == "array":
		var err error
		if n.items, err = r.node(items, join(path, "[]"), depth+1); err != nil {
			return err
		}
		if n.distinct && n.items.enum == nil {
			return at(path, "uniqueItems is taken only where the items have an enum")
		}
		return nil
	case n.kind != "object":
		return nil
	}
	required, err := names(o, "required")
	if err != nil {
		return at(path, "required: %w", err)
	}
	for _, m := range properties.Members {
		if r.fields++; r.fields > maxFields {
			return at(path, "it has more than %d properties", maxFields)
		}
		if m.Key == "" || len(m.Key) > 64 || strings.ContainsFunc(m.Key, unicode.IsControl) {
			return at(path, "the name %q of a property is empty, long, or has control characters",
				excerpt.Of(m.Key))
		}
		sub, ok := m.Value.(*jsontree.Object)
		if !ok {
			return at(join(path, m.Key), "a JSON Schema is an object")
		}
		part, err := r.node(sub, join(path, m.Key), depth+1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{m.Key, slices.Contains(required, m.Key), part})
	}
	for _, name := range required {
		if !properties.Has(name) {
			return at(path, "it requires %q, which is not among its properties", excerpt.Of(name))
		}
	}
	if !o.Has("additionalProperties") {
		o.Set("additionalProperties", false)
	}
	return nil
}

func object(o *jsontree.Object, key string) (*jsontree.Object, bool) {
	v, _ := o.Get(key)
	sub, ok := v.(*jsontree.Object)
	return sub, ok
}

// names reads a list of texts; absent, it is empty.
func names(o *jsontree.Object, key string) (all []string, err error) {
	v, ok := o.Get(key)
	if !ok {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("it is a list of names")
	}
	for _, v := range list {
		var name string
		if err := decode(v, &name); err != nil {
			return nil, errors.New("it is a list of names")
		}
		all = append(all, name)
	}
	return all, nil
}

// at returns an error that names its place, if it has one.
func at(path, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
