package handles

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// A model is told a tool's actions flat, or each variant by itself.
func TestSchemas(t *testing.T) {
	for name, c := range map[string]Config{
		"flat.json":       {Takes: true, Asks: true},
		"flat_plain.json": {},
		"flat_bare.json":  {Input: json.RawMessage(`{}`)},
		"flat_keys.json": {Takes: true, Asks: true, ApplyInput: json.RawMessage(
			`{"description":"Or keys.","type":["string","array"],"items":{"type":"string"}}`)},
		"flat_object.json": {Takes: true, Asks: true, ApplyInput: json.RawMessage(
			`{"type":"object","properties":{"end":{"type":"boolean"}},"additionalProperties":false}`)},
		"flat_asks.json":  {Asks: true},
		"flat_takes.json": {Takes: true, ApplyInput: json.RawMessage(`{"type":"integer"}`)},
		"exact.json":      {Takes: true, Asks: true, Exact: true},
		"exact_open.json": {Exact: true, Input: json.RawMessage(`{"properties":{"a":{}}}`)},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, form(t, c).Schema()) })
	}
	golden(t, "await.json", AwaitSpec().Input)
	golden(t, "inquiry.json", InquirySchema())
}

func TestActions(t *testing.T) {
	if got := form(t, Config{}).Actions(); !slices.Equal(got, []Action{Spawn, Fetch, Abort}) {
		t.Errorf("%q", got)
	}
	f := form(t, Config{Takes: true, Asks: true})
	if got := f.Actions(); !slices.Equal(got, []Action{Spawn, Fetch, Apply, Abort}) {
		t.Errorf("%q", got)
	}
	f.Schema()[0], f.Actions()[0] = 'x', "x"
	if f.Schema()[0] != '{' || f.Actions()[0] != Spawn {
		t.Error("what a form returns is its own")
	}
}

// What can't be told beside actions is an error where the tool is made, which
// says what to do.
func TestFormsThatAreRefused(t *testing.T) {
	for input, want := range map[string]string{
		`{"properties":{"id":{}}}`: `own parameter "id" has the name of ` +
			`one that actions take (action, id, input): rename it`,
		`{"properties":{"action":{}}}`: `own parameter "action"`,
		`{"properties":{"input":{}}}`:  `own parameter "input"`,
		`{"anyOf":[{"required":["a"]}]}`: `at its root, its Input has anyOf: ` +
			`write its properties out`,
		`{"properties":{"kids":{"$ref":"#"}}}`:         `refers to "#": refer to one of its $defs`,
		`{"type":"string"}`:                            `type is "string"`,
		`{"properties":{"a":{"type":"strong"}}}`:       `/properties/a/type`,
		`{"properties":{"a":{"$ref":"#/$defs/none"}}}`: `none`,
		`{"properties":[]}`:                            `properties`,
		`nope`:                                         `shell`,
	} {
		_, err := NewForm(Config{Tool: "shell", Input: json.RawMessage(input)})
		told(t, err, `tool "shell": its calls can't be actions: `, want)
	}
	for _, root := range []string{`"allOf":[{}]`, `"oneOf":[{}]`, `"if":{}`,
		`"dependentSchemas":{}`, `"patternProperties":{"^a":{}}`, `"unevaluatedProperties":false`} {
		_, err := NewForm(Config{Tool: "shell", Input: json.RawMessage("{" + root + "}")})
		key, _, _ := strings.Cut(root, ":")
		told(t, err, "at its root, its Input has "+strings.Trim(key, `"`))
	}
	_, err := NewForm(Config{Tool: "shell", ApplyInput: json.RawMessage(`{}`)})
	told(t, err, "it has a schema of input, and takes none")
	for input, want := range map[string]string{
		`{"$ref":"#/$defs/a"}`: `its input refers to "#/$defs/a": write it out`,
		`{"type":"strong"}`:    `the schema of its input: `,
		`7`:                    `the schema of its input: `,
	} {
		_, err = NewForm(Config{Tool: "shell", Takes: true, ApplyInput: json.RawMessage(input)})
		told(t, err, want)
	}
}
