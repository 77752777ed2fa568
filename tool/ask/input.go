package ask

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
)

// input is what the model writes. All of it is flat, and a schema is a text,
// since that is what every provider takes, also where it holds the model to the
// tool's schema.
type input struct {
	Kind     Kind     `json:"kind,omitempty"` // absent where there is one only
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
	Schema   string   `json:"schema,omitempty"`
}

// The bounds of what the model writes.
const (
	maxQuestion = 4000 // characters
	minOptions  = 2
	maxOptions  = 20
	maxOption   = 200     // characters
	maxSchema   = 8 << 10 // bytes
)

// told is what the model reads of each kind.
var told = map[Kind]string{
	Clarification: "an open question, answered by a text",
	Decision:      "a choice, answered by one of the options that you give",
	Information:   "a form, answered by an object that fits the schema that you give",
	Confirmation:  "a question of yes or no, answered by one of these words",
}

// describe returns what the model is told of the tool.
func (u *user) describe() string {
	var b strings.Builder
	b.WriteString("Ask the user, and wait for the answer, which is the result. ")
	if len(u.Kinds) == 1 {
		fmt.Fprintf(&b, "It is %s.", told[u.Kinds[0]])
	} else {
		b.WriteString("The kinds of question are: ")
		for i, k := range u.Kinds {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "%s, %s", k, told[k])
		}
		b.WriteByte('.')
	}
	if u.Description != "" {
		b.WriteString(" " + u.Description)
	}
	return b.String()
}

// inputSchema returns the schema of input, as far as the kinds need it.
func (u *user) inputSchema() json.RawMessage {
	properties := jsontree.New()
	text := func(description string) *jsontree.Object {
		return jsontree.New("type", "string", "description", description)
	}
	var required []string
	if len(u.Kinds) > 1 {
		kind := text("What kind of question it is.")
		kind.Set("enum", u.Kinds)
		properties.Set("kind", kind)
		required = append(required, "kind")
	}
	properties.Set("question",
		text("The question, in the user's language, with all that is needed to answer it."))
	required = append(required, "question")
	if u.offers(Decision) {
		properties.Set("options", jsontree.New("type", "array",
			"items", jsontree.New("type", "string"), "description", fmt.Sprintf(
				"With a decision, and only then: %d to %d different answers, in a few words each.",
				minOptions, maxOptions)))
	}
	if u.offers(Information) {
		properties.Set("schema", text("With information, and only then: the JSON Schema of the "+
			"answer, as a JSON text. It is an object with properties, which may be texts, "+
			"numbers, booleans, lists and objects; it has a description for each, and says in "+
			"required what has to be answered."))
	}
	return jsontree.New("type", "object", "properties", properties, "required", required,
		"additionalProperties", false).Raw()
}

func (u *user) offers(k Kind) bool { return slices.Contains(u.Kinds, k) }

// Asked is a question as it is kept in the pause's data, for programs that show
// it in a form of their own. Options are those of a Decision; what an
// Information is about is in the pause's schema.
type Asked struct {
	Kind     Kind     `json:"kind"`
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`

	schema json.RawMessage // of the answer
	fields []field         // of an Information
}

// judge returns the question, or why it can't be asked.
func (u *user) judge(in input) (*Asked, error) {
	a := &Asked{Question: strings.TrimSpace(in.Question)}
	a.Kind = in.Kind
	if len(u.Kinds) == 1 {
		a.Kind = cmp.Or(in.Kind, u.Kinds[0])
	}
	switch n := utf8.RuneCountInString(a.Question); {
	case !u.offers(a.Kind):
		return nil, fmt.Errorf("kind is %q, and may be %q", excerpt.Of(string(a.Kind)), u.Kinds)
	case n == 0:
		return nil, errors.New("question is empty")
	case n > maxQuestion:
		return nil, fmt.Errorf("question has %d characters, at most %d are taken", n, maxQuestion)
	case a.Kind != Decision && len(in.Options) > 0:
		return nil, fmt.Errorf("options go with kind %q, and kind is %q", Decision, a.Kind)
	case a.Kind != Information && in.Schema != "":
		return nil, fmt.Errorf("schema goes with kind %q, and kind is %q", Information, a.Kind)
	}
	var err error
	switch a.Kind {
	case Clarification:
		a.schema = json.RawMessage(`{"type":"string","minLength":1}`)
	case Confirmation:
		a.schema = json.RawMessage(`{"type":"string","enum":["yes","no"]}`)
	case Decision:
		a.Options, a.schema, err = decision(in.Options)
	case Information:
		a.fields, a.schema, err = form(in.Schema)
	}
	return a, err
}

// decision returns the options without white space around them, and the schema
// that takes one of them.
func decision(given []string) (options []string, schema json.RawMessage, err error) {
	if n := len(given); n < minOptions || n > maxOptions {
		return nil, nil, fmt.Errorf("there are %d options, a decision has %d to %d",
			n, minOptions, maxOptions)
	}
	for i, o := range given {
		o = strings.TrimSpace(o)
		switch n := utf8.RuneCountInString(o); {
		case n == 0:
			return nil, nil, fmt.Errorf("option %d is empty", i+1)
		case n > maxOption:
			return nil, nil, fmt.Errorf("option %d has %d characters, at most %d are taken",
				i+1, n, maxOption)
		case slices.ContainsFunc(options, func(s string) bool { return strings.EqualFold(s, o) }):
			return nil, nil, fmt.Errorf("option %d, %q, is there twice", i+1, excerpt.Of(o))
		}
		options = append(options, o)
	}
	return options, jsontree.New("type", "string", "enum", options).Raw(), nil
}

// prompt returns the question and what may be answered, as a person reads it.
func (a *Asked) prompt() string {
	var b strings.Builder
	b.WriteString(a.Question)
	switch a.Kind {
	case Decision:
		b.WriteString("\n\nOne of:")
		for _, o := range a.Options {
			b.WriteString("\n- " + o)
		}
	case Confirmation:
		b.WriteString("\n\nYes or no?")
	case Information:
		b.WriteString("\n\nPlease give:")
		for _, f := range a.fields {
			b.WriteString("\n- " + f.String())
		}
	}
	return b.String()
}
