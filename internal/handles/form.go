package handles

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
)

// Config is a tool whose calls may be actions.
type Config struct {
	Tool  string          // its name
	Input json.RawMessage // its own Input schema, as it stands in its Spec
	// Takes is whether a handle that runs takes input, and Asks whether it asks
	// questions that are the model's to answer. Without either there is no
	// action apply.
	Takes, Asks bool
	// ApplyInput, with Takes, is the schema of an input; empty: a text. It has
	// no references. With Asks apply takes texts as well.
	ApplyInput json.RawMessage
	// Exact tells the schema by oneOf at its root, which Anthropic and OpenAI
	// refuse. Otherwise it is flat.
	Exact bool
}

// Form is the form of a tool's calls: the schema that a model is told, and how
// they are read. It doesn't change, and any goroutine may use it.
type Form struct {
	actions []Action
	own     []string // the tool's parameters
	open    bool     // the tool takes parameters of other names
	// toldApply is what apply does, in words.
	toldApply string
	schema    json.RawMessage
}

// The parameters of actions.
const (
	actionParameter = "action"
	idParameter     = "id"
	inputParameter  = "input"
)

var ours = []string{actionParameter, idParameter, inputParameter}

// NewForm returns a tool's form. It is an error if the tool has a parameter
// called action, id or input. Such parameters are not moved into an object of
// their own: then the model would have to tell two ids apart, and the tool's
// arguments would have another form with an action than without.
//
// What stands at the root of the tool's schema beside the properties, which are
// required, additionalProperties, and the definitions, is not told: a bound on
// the number of properties, say. The tool's own check has it. Alternatives at
// the root are an error, since what they name would not be told.
func NewForm(c Config) (*Form, error) {
	f, err := newForm(c)
	if err != nil {
		return nil, fmt.Errorf("tool %q: its calls can't be actions: %w", c.Tool, err)
	}
	return f, nil
}

func newForm(c Config) (*Form, error) {
	own, err := ownOf(c.Input)
	if err != nil {
		return nil, err
	}
	f := &Form{actions: []Action{Spawn, Fetch, Abort}, own: own.names(), open: own.open()}
	if c.Takes || c.Asks {
		f.actions = slices.Insert(f.actions, 2, Apply)
	}
	f.toldApply = "give it input"
	switch {
	case c.Takes && c.Asks:
		f.toldApply = "give it input, or answer its question to you"
	case c.Asks:
		f.toldApply = "answer its question to you"
	}
	given, err := c.applied()
	if err != nil {
		return nil, err
	}
	if c.Exact {
		f.schema = f.exact(own, given).Raw()
	} else {
		f.schema = f.flat(own, given).Raw()
	}
	if _, err := schema.Compile(f.schema); err != nil {
		return nil, err
	}
	return f, nil
}

// Schema returns the Input schema of the tool with its actions.
func (f *Form) Schema() json.RawMessage { return slices.Clone(f.schema) }

// Actions returns those that the tool has.
func (f *Form) Actions() []Action { return slices.Clone(f.actions) }

// applied returns the schema of what apply gives, with its description.
func (c Config) applied() (*jsontree.Object, error) {
	words := toldInput[c.Asks]
	switch {
	case schema.IsNull(c.ApplyInput):
		if !c.Takes {
			words = toldAnswer
		}
		return text(words), nil
	case !c.Takes:
		return nil, errors.New("it has a schema of input, and takes none")
	}
	s, err := schema.ParseNode(c.ApplyInput)
	if err != nil {
		return nil, fmt.Errorf("the schema of its input: %w", err)
	}
	if refs := references(s); len(refs) > 0 {
		return nil, fmt.Errorf("the schema of its input refers to %q: write it out",
			excerpt.Of(refs[0]))
	}
	compiled, err := schema.Compile(s.Raw())
	if err != nil {
		return nil, fmt.Errorf("the schema of its input: %w", err)
	}
	if c.Asks && compiled.NeverText() {
		s = jsontree.New("anyOf", []any{text("An answer."), s})
	}
	return described(s, words), nil
}

// own is a tool's own schema.
type own struct{ root, properties *jsontree.Object }

// notFlat are the members of a schema's root by which it has properties that
// don't stand in its list of them.
var notFlat = []string{"allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties",
	"unevaluatedProperties"}

func ownOf(input json.RawMessage) (own, error) {
	given, err := schema.GivenInput(input)
	if err != nil {
		return own{}, err
	}
	root, err := schema.ParseNode(given)
	if err != nil {
		return own{}, err
	}
	for _, key := range notFlat {
		if root.Has(key) {
			return own{}, fmt.Errorf("at its root, its Input has %s: write its properties out", key)
		}
	}
	for _, ref := range references(root) {
		if !strings.HasPrefix(ref, jsontree.DefsPrefix) &&
			!strings.HasPrefix(ref, "#/definitions/") {
			return own{}, fmt.Errorf("its Input refers to %q: refer to one of its $defs",
				excerpt.Of(ref))
		}
	}
	list, _ := root.Get("properties")
	properties, ok := list.(*jsontree.Object)
	if !ok {
		return own{}, errors.New("the properties of its Input are no object")
	}
	for _, name := range ours {
		if properties.Has(name) {
			return own{}, fmt.Errorf("its own parameter %q has the name of one that actions take "+
				"(%s): rename it", name, strings.Join(ours, ", "))
		}
	}
	return own{root, properties}, nil
}

func (o own) names() []string {
	names := make([]string, len(o.properties.Members))
	for i, m := range o.properties.Members {
		names[i] = m.Key
	}
	return names
}

func (o own) required() (names []string) {
	v, _ := o.root.Get("required")
	if v != nil {
		_ = json.Unmarshal(jsontree.Text(v), &names) // what is no list of names requires nothing
	}
	return names
}

// open reports whether there may be properties of other names.
func (o own) open() bool {
	v, ok := o.root.Get("additionalProperties")
	return !ok || string(jsontree.Text(v)) != "false"
}

// others sets what a schema says of further properties, if it does.
func (o own) others(s *jsontree.Object) {
	if v, ok := o.root.Get("additionalProperties"); ok {
		s.Set("additionalProperties", v)
	}
}

// definitions sets those that the properties refer to.
func (o own) definitions(root *jsontree.Object) {
	for _, key := range []string{"$defs", "definitions"} {
		if v, ok := o.root.Get(key); ok {
			root.Set(key, v)
		}
	}
}

// references returns what a schema refers to.
func references(s *jsontree.Object) (all []string) {
	if ref, ok := s.Text("$ref"); ok {
		all = append(all, ref)
	}
	_ = jsontree.EachSub(s, func(_ string, sub any) (any, error) {
		if o, ok := sub.(*jsontree.Object); ok {
			all = append(all, references(o)...)
		}
		return sub, nil
	})
	return all
}

// text returns the schema of a text.
func text(description string) *jsontree.Object {
	s := jsontree.New("type", "string")
	if description != "" {
		s.Set("description", description)
	}
	return s
}
