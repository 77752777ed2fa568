package ask

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/schema"
)

// shipping is a form with parts of all types.
const shipping = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"required": ["name", "address", "size"],
	"properties": {
		"name": {"type": "string", "description": "Full name\nof the receiver", "minLength": 2},
		"address": {"type": "object", "required": ["street"], "properties": {
			"street": {"type": "string", "title": "Street and number"},
			"country": {"type": "string", "enum": ["DE", "FR"]}}},
		"size": {"type": "string", "enum": ["S", "M", "L"]},
		"count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
		"weight": {"type": "number", "exclusiveMinimum": 0.5},
		"on": {"type": "string", "format": "date"},
		"gift": {"type": "boolean"},
		"colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]},
			"uniqueItems": true, "minItems": 2},
		"people": {"type": "array", "items": {"type": "object", "properties": {
			"age": {"type": "integer", "minimum": 0}}}}
	}
}`

func TestAFormIsReadAsAPersonReadsIt(t *testing.T) {
	fields, closed, err := form(shipping)
	if err != nil {
		t.Fatal(err)
	}
	a := Asked{Kind: Information, Question: "Where to?", fields: fields}
	const want = `Where to?

Please give:
- name (text): Full name of the receiver
- address.street (text): Street and number
- address.country (one of: DE, FR, optional)
- size (one of: S, M, L)
- count (whole number, 1 to 10, optional)
- weight (number, above 0.5, optional)
- on (date, as 2026-03-01, optional)
- gift (yes or no, optional)
- colours (list, each one of: red, blue, optional)
- people (list, each with age (whole number, at least 0), optional)`
	if got := a.prompt(); got != want {
		t.Errorf("it reads\n%s", got)
	}
	check, err := schema.Compile(closed)
	if err != nil {
		t.Fatal(err)
	}
	for answer, fits := range map[string]bool{
		`{"name":"Ada","address":{"street":"1 Way"},"size":"M"}`: true,
		`{}`:                                     false,
		`{"name":"Ada","address":{},"size":"M"}`: false,
		`{"name":"Ada","address":{"street":"1"},"size":"XL"}`:                   false,
		`{"name":"Ada","address":{"street":"1 Way","zip":"1"},"size":"M"}`:      false,
		`{"name":"Ada","address":{"street":"1 Way"},"size":"M","colour":"red"}`: false,
	} {
		if err := check.ValidateResult(json.RawMessage(answer)); (err == nil) != fits {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// withField is a form of one field.
func withField(f string) string {
	return `{"type":"object","required":["f"],"properties":{"f":` + f + `}}`
}

func TestAFormThatCanNotBeAnsweredIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"  ", "it is empty"},
		{"a name", "no JSON"},
		{`[]`, "a JSON Schema is an object"},
		{`true`, "type is missing"},
		{`false`, "no value fits"},
		{`{}`, "type is missing"},
		{`{"type":"string"}`, `its type is "string", and has to be object`},
		{`{"type":"object"}`, "an object without properties"},
		{`{"type":"object","properties":{}}`, "an object without properties"},
		{`{"type":"object","properties":{"a":{"type":"string"}}}`,
			"an empty answer would fit: list in required what has to be answered"},
		{`{"type":"object","required":["b"],"properties":{"a":{"type":"string"}}}`,
			`it requires "b"`},
		{`{"type":"object","required":"a","properties":{"a":{"type":"string"}}}`,
			"required: it is a list"},
		{`{"type":"object","type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`,
			"type"},
		{`{"type":"object","required":["a"],"properties":{"a":7}}`, "a: a JSON Schema is"},
		{`{"type":"object","required":[""],"properties":{"":{"type":"string"}}}`, "name"},
		{withField(`{"type":["string","null"]}`), "f: type: it is one of"},
		{withField(`{"type":"null"}`), "f: type: it is one of"},
		{withField(`{"$ref":"#"}`), `f: the keyword "$ref" is not taken`},
		{withField(`{"anyOf":[{"type":"string"}]}`), `f: the keyword "anyOf"`},
		{withField(`{"type":"string","pattern":"^a$"}`), `f: the keyword "pattern"`},
		{withField(`{"type":"string","format":"ipv6"}`), "f: format: it is one of"},
		{withField(`{"type":"string","properties":{}}`),
			"its type is string, and it has properties"},
		{withField(`{"type":"string","items":{"type":"string"}}`),
			"its type is string, and it has items"},
		{withField(`{"type":"array"}`), "f: it is an array without items"},
		{withField(`{"type":"array","items":{"type":"string"},"uniqueItems":true}`),
			"f: uniqueItems"},
		{withField(`{"type":"string","enum":[]}`), "f: enum: it is a list of 1 to 50"},
		{withField(`{"type":"string","enum":[{}]}`), "f: enum: its values are"},
		{withField(`{"type":"string","minLength":-1}`), "f: minLength: it is a whole number"},
		{withField(`{"type":"string","minLength":1e9}`), "f: minLength: it is a whole number"},
		{withField(`{"type":"integer","minimum":"1"}`), "f: minimum: it is a number"},
		// What fits nothing, although each part is well.
		{withField(`{"type":"integer","minimum":10,"maximum":5}`), "f: no answer would fit"},
		{withField(`{"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":2}`),
			"f: no answer would fit"},
		{withField(`{"type":"number","exclusiveMinimum":1,"maximum":1}`),
			"f: no answer would fit"},
		{withField(`{"type":"integer","minimum":1,"maximum":4,"multipleOf":5}`),
			"f: no answer would fit"},
		{withField(`{"type":"string","minLength":5,"maxLength":3}`), "f: no answer would fit"},
		{withField(`{"type":"string","format":"date","minLength":30}`),
			"f: no answer would fit"},
		{withField(`{"type":"string","enum":["a"],"minLength":3}`), "f: no answer would fit"},
		{withField(`{"type":"integer","enum":["a","b"]}`), "f: no answer would fit"},
		{withField(`{"type":"array","items":{"type":"string"},"minItems":3,"maxItems":2}`),
			"no answer would fit"},
		{withField(`{"type":"array","items":{"type":"string","enum":["a"]},"minItems":2,` +
			`"uniqueItems":true}`),
			"f.[]: there are 1 different answers, and 2 are wanted"},
		{withField(strings.Repeat(`{"type":"array","items":`, 4) + `{"type":"string"}` +
			strings.Repeat(`}`, 4)), "nested more than 4 deep"},
		{withField(`{"type":"string","description":"` + strings.Repeat("d", maxSchema) + `"}`),
			"at most 8192 are taken"},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}` +
			manyFields(maxFields) + `}}`, "more than 30 properties"},
	} {
		fields, _, err := form(c.text)
		if err == nil {
			t.Errorf("%s is taken: %v", c.text, fields)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "schema: ") {
			t.Errorf("%s is told %v", c.text, err)
		}
		if len(err.Error()) > 500 {
			t.Errorf("a refusal has %d bytes", len(err.Error()))
		}
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"b` + fmt.Sprint(i) + `":{"type":"string"}`)
	}
	return b.String()
}

func TestAFormThatCanBeAnsweredIsTaken(t *testing.T) {
	for _, f := range []string{
		`{"type":"integer","minimum":9007199254740993,"maximum":9007199254740993}`,
		`{"type":"integer","minimum":1.2,"maximum":2.3}`,
		`{"type":"integer","exclusiveMinimum":-3,"exclusiveMaximum":-1}`,
		`{"type":"number","exclusiveMinimum":0.1,"exclusiveMaximum":0.2}`,
		`{"type":"number","exclusiveMaximum":-1e300}`,
		`{"type":"integer","minimum":7,"maximum":13,"multipleOf":5}`,
		`{"type":"string","minLength":2000}`, `{"type":"string","maxLength":1}`,
		`{"type":"string","format":"email","minLength":40}`,
		`{"type":"string","format":"uri","minLength":100}`, `{"type":"string","format":"time"}`,
		`{"type":"string","enum":["a","abc"],"minLength":3}`, `{"type":"integer","enum":[1,2]}`,
		`{"type":"boolean","enum":[true]}`,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`,
		`{"type":"array","items":{"type":"array","items":{"type":"string"}},"minItems":3}`,
	} {
		if _, _, err := form(withField(f)); err != nil {
			t.Errorf("%s is told %v", f, err)
		}
	}
}

// What is taken can be answered: the schema compiles, and its witness fits it.
// What isn't is refused in few words.
func FuzzForm(f *testing.F) {
	f.Add(shipping)
	f.Add(withField(`{"type":"integer","minimum":1e308,"maximum":1e309,"multipleOf":1e-300}`))
	f.Add(withField(`{"type":"string","enum":["\ud800"]}`))
	f.Add(`{"type":"object","required":["a","a"],"properties":{"a":{"type":"string"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		fields, closed, err := form(text)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("%d bytes of refusal", len(err.Error()))
			}
			return
		}
		check, err := schema.Compile(closed)
		if err != nil || len(fields) == 0 {
			t.Fatalf("%s is taken with %d fields, %v", text, len(fields), err)
		}
		if check.ValidateResult(json.RawMessage(`{}`)) == nil {
			t.Errorf("%s takes {}", text)
		}
		for _, f := range fields {
			if f.String() == "" {
				t.Error("a field says nothing")
			}
		}
	})
}

// TestBoundsInEitherOrder: of two bounds below or above, the tighter one counts,
// whichever stands first; and answers of few characters and few digits are found.
func TestBoundsInEitherOrder(t *testing.T) {
	for _, field := range []string{
		`{"type":"number","minimum":5,"exclusiveMinimum":1}`,
		`{"type":"number","exclusiveMinimum":1,"minimum":5}`,
		`{"type":"number","maximum":5,"exclusiveMaximum":9}`,
		`{"type":"number","exclusiveMaximum":9,"maximum":5}`,
		`{"type":"integer","minimum":5,"exclusiveMinimum":5,"maximum":6}`,
		`{"type":"integer","exclusiveMinimum":5,"minimum":5,"maximum":6}`,
		`{"type":"number","minimum":0.25,"maximum":0.35,"multipleOf":0.1}`,
		`{"type":"string","format":"uri","minLength":10,"maxLength":12}`,
		`{"type":"string","format":"uri","maxLength":3}`,
	} {
		if _, _, err := form(withField(field)); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
	n := node{}
	for _, v := range []string{`5`, `1`} {
		if err := n.least.read(json.RawMessage(v), 1, v == "1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.between(); got != ", at least 5" {
		t.Errorf("a person reads %q", got)
	}
}
