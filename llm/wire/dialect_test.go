package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
)

var plain = Dialect{Keywords: []string{}, Formats: []string{}}

func TestConvert(t *testing.T) {
	full := Dialect{OneOf: true, Const: true, Refs: true}
	strict := Dialect{Keywords: []string{}, Formats: []string{}, Refs: true, Closed: true}
	for _, c := range []struct {
		name, in string
		d        Dialect
		want     string
	}{
		{"nothing", ``, plain, `{"type":"object","properties":{}}`},
		{"null", `null`, plain, `{"type":"object","properties":{}}`},
		{"no properties", `{"type":"object"}`, plain, `{"type":"object","properties":{}}`},
		{"properties null", `{"type":"object","properties":null}`, plain, `{"type":"object","properties":{}}`},
		{"the order stays", `{"properties":{"z":{"type":"string"},"a":{"type":"integer"}},"type":"object","required":["z"]}`, plain,
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z"]}`},
		{"names of a schema", `{"$schema":"x","$id":"y","type":"object","properties":{"$id":{"type":"string","$id":"z"}}}`, full,
			`{"type":"object","properties":{"$id":{"type":"string"}}}`},
		{"true", `{"properties":{"any":true}}`, full, `{"type":"object","properties":{"any":{}}}`},
		{"a closed object", `{"properties":{},"additionalProperties":false}`, plain, `{"type":"object","properties":{},"additionalProperties":false}`},
		{"a map", `{"properties":{"m":{"type":"object","additionalProperties":{"type":"integer"}}}}`, plain,
			`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"integer"}}}}`},
		{"what is not taken is told", `{"properties":{"v":{"type":"string","pattern":"^v","description":"As tagged"},"n":{"type":"integer","minimum":1,"maximum":3}}}`, plain,
			`{"type":"object","properties":{"v":{"type":"string","description":"As tagged (pattern: ^v)"},"n":{"type":"integer","description":"minimum: 1 (maximum: 3)"}}}`},
		{"a format", `{"properties":{"at":{"type":"string","format":"date-time"}}}`, plain,
			`{"type":"object","properties":{"at":{"type":"string","description":"format: date-time"}}}`},
		{"oneOf", `{"properties":{"p":{"oneOf":[{"type":"string"},{"type":"integer"}],"description":"x"}}}`, plain,
			`{"type":"object","properties":{"p":{"anyOf":[{"type":"string"},{"type":"integer"}],"description":"x"}}}`},
		{"oneOf that is taken", `{"properties":{"p":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`, full,
			`{"type":"object","properties":{"p":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`},
		{"const", `{"properties":{"p":{"type":"string","const":"a"}}}`, plain, `{"type":"object","properties":{"p":{"type":"string","enum":["a"]}}}`},
		{"types in a list", `{"properties":{"p":{"type":["string","null"]}}}`, plain, `{"type":"object","properties":{"p":{"type":["string","null"]}}}`},
		{"references are written out", `{"properties":{"a":{"$ref":"#/$defs/P"},"b":{"$ref":"#/$defs/P","description":"B"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"integer"}},"$schema":"s"}}}`, plain,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"integer"}}},"b":{"type":"object","properties":{"x":{"type":"integer"}},"description":"B"}}}`},
		{"references in the older form", `{"properties":{"a":{"$ref":"#/definitions/P"}},"definitions":{"P":{"type":"integer"}}}`, plain,
			`{"type":"object","properties":{"a":{"type":"integer"}}}`},
		{"a type that holds itself", `{"properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/N"}}}}}}`, full,
			`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/N"}}}}}}`},
		{"bare references", `{"properties":{"n":{"$ref":"#/$defs/N"}},"required":["n"],"$defs":{"N":{"type":"object","properties":{"v":{"type":"integer"},"$ref":{"type":"integer"},` +
			`"left":{"$ref":"#/$defs/N","description":"L"},"kids":{"type":"array","items":{"$ref":"#/$defs/N"}}},"required":["v","$ref","left","kids"],"description":"N"}}}`,
			Dialect{Refs: true, BareRefs: true}, `{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"description":"required: [\"n\"]","$defs":{"N":{"type":"object",` +
				`"properties":{"v":{"type":"integer"},"$ref":{"type":"integer"},"left":{"anyOf":[{"$ref":"#/$defs/N"}],"description":"L"},"kids":{"type":"array","items":{"$ref":"#/$defs/N"}}},` +
				`"required":["v","$ref"],"description":"N (required: [\"left\",\"kids\"])"}}}`},
		{"strict", `{"properties":{"a":{"type":"string"},"b":{"type":"integer","description":"B"},"c":{"type":"string","enum":["x"]},"d":{"type":"object","properties":{"e":{"type":"boolean"}}}},"required":["a"]}`, strict,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["integer","null"],"description":"B"},"c":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},` +
				`"d":{"type":["object","null"],"properties":{"e":{"type":["boolean","null"]}},"required":["e"],"additionalProperties":false}},"required":["a","b","c","d"],"additionalProperties":false}`},
		{"strict, with properties that stay optional", `{"properties":{"a":{"type":"string"},"d":{"type":"object","properties":{"e":{"type":"boolean"}}}},"required":["a"]}`,
			Dialect{Closed: true, Optional: true},
			`{"type":"object","properties":{"a":{"type":"string"},"d":{"type":"object","properties":{"e":{"type":"boolean"}},"additionalProperties":false}},"required":["a"],"additionalProperties":false}`},
		{"strict, with alternatives", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}],"description":"A"}}}`, strict,
			`{"type":"object","properties":{"a":{"description":"A","anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`},
		{"strict, without properties", `{}`, strict, `{"type":"object","properties":{},"required":[],"additionalProperties":false}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.d.Convert(raw(c.in))
			if err != nil || string(got) != c.want {
				t.Fatalf("%v\n got %s\nwant %s", err, got, c.want)
			}
			if again, err := c.d.Convert(got); err != nil || string(again) != c.want && !c.d.Closed {
				t.Errorf("again: %v %s", err, again)
			}
		})
	}
}

func TestSchemasThatCannotBeTold(t *testing.T) {
	strict := Dialect{Keywords: []string{}, Closed: true}
	for _, c := range []struct {
		name, in string
		d        Dialect
		want     string
	}{
		{"no JSON", `{`, plain, "no JSON"},
		{"a list", `[]`, plain, "no object"},
		{"a root of another type", `{"type":"array"}`, plain, `the schema's type is "array"`},
		{"a type that holds itself", `{"properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}}}}}`, plain, "the type N holds itself"},
		{"a reference that leads out", `{"properties":{"n":{"$ref":"https://example.com/n"}}}`, plain, `refers to "https://example.com/n"`},
		{"a reference to nothing", `{"properties":{"n":{"$ref":"#/$defs/N"}}}`, plain, `refers to "#/$defs/N"`},
		{"false", `{"properties":{"n":false}}`, plain, "at /properties, the schema false"},
		{"no schema", `{"properties":{"n":{"type":"array","items":7}}}`, plain, "at /properties/n/items, a schema is an object, not 7"},
		{"strict: a map", `{"properties":{"m":{"type":"object","additionalProperties":{"type":"integer"}}}}`, strict, "at /properties/m, an object takes members of any name"},
		{"strict: an open object", `{"properties":{"m":{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":true}}}`, strict, "at /properties/m, an object takes members of any name"},
		{"strict: any value", `{"properties":{"m":{"description":"what you like"}}}`, strict, "at /properties/m, a value may be of any type"},
		{"strict: a list of anything", `{"properties":{"m":{"type":"array"}}}`, strict, "at /properties/m, a list holds values of any type"},
		{"strict: patterns", `{"properties":{"m":{"type":"object","patternProperties":{"^a":{"type":"integer"}}}}}`, strict, "at /properties/m, an object has no properties"},
	} {
		if got, err := c.d.Convert(raw(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestDropNulls(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":["string","null"]},"any":{},
		"d":{"type":"array","items":{"$ref":"#/$defs/D"}},"n":{"$ref":"#/$defs/N"},"u":{"anyOf":[{"$ref":"#/$defs/D"},{"type":"string"}]}},"required":["a"],
		"$defs":{"D":{"type":"object","properties":{"x":{"type":"integer"}}},"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"},"x":{"type":"integer"}}}}}`
	for in, want := range map[string]string{
		`{"a": null, "b": null}`: `{"a":null}`,
		// It takes null: untouched.
		`{"a": "x",  "c": null}`:                    `{"a": "x",  "c": null}`,
		`{"any":null,"b":null}`:                     `{"any":null}`,
		`{"d":[{"x":null},{"x":9007199254740993}]}`: `{"d":[{},{"x":9007199254740993}]}`,
		`{"n":{"n":{"n":null,"x":null},"x":1}}`:     `{"n":{"n":{},"x":1}}`,
		`{"u":{"x":null}}`:                          `{"u":{}}`,
		`{"unknown":null}`:                          `{"unknown":null}`,
		`[null]`:                                    `[null]`,
		`"text"`:                                    `"text"`,
		`{"a":`:                                     `{"a":`,
		`{"b":null,"a":"\u003c9007199254740993.10\ud83d"}`: `{"a":"\u003c9007199254740993.10\ud83d"}`,
	} {
		if got := DropNulls(raw(in), raw(schema)); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if got := DropNulls(raw(`{"a":null}`), raw(`[]`)); string(got) != `{"a":null}` {
		t.Error(string(got))
	}
}

// What fits a tool's schema fits what the provider is told; and in strict mode,
// what the model may then say fits the tool's again.
func TestDialectsSayNoLessThanTheSchema(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		schema, value, filled := drawObject(t, 3)
		d := Dialect{
			OneOf: rapid.Bool().Draw(t, "oneOf"), Const: rapid.Bool().Draw(t, "const"),
			Closed: rapid.Bool().Draw(t, "closed"),
		}
		if rapid.Bool().Draw(t, "few") {
			d.Keywords, d.Formats = []string{}, []string{}
		}
		got, err := d.Convert(raw(schema))
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		if !fits(t, raw(schema), value) {
			t.Fatalf("the test is wrong: %s doesn't fit %s", value, schema)
		}
		said := value
		if d.Closed {
			said = filled
		}
		if !fits(t, got, said) {
			t.Fatalf("%s fits\n%s\nand not\n%s", said, schema, got)
		}
		if back := DropNulls(raw(filled), raw(schema)); !fits(t, raw(schema), string(back)) {
			t.Fatalf("%s, without its nulls %s, doesn't fit %s", filled, back, schema)
		}
	})
}

func fits(t *rapid.T, schema json.RawMessage, value string) bool {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v) == nil
}

// drawObject makes an object's schema, a value that fits it, and that value as
// strict mode has it: what is absent is null.
func drawObject(t *rapid.T, depth int) (schema, value, filled string) {
	var properties, required, values, all []string
	for i := range rapid.IntRange(0, 3).Draw(t, "properties") {
		s, v, f := drawValue(t, depth-1)
		name := fmt.Sprintf("%q", string(rune('a'+i)))
		properties = append(properties, name+":"+s)
		there := rapid.Bool().Draw(t, "there")
		if must := rapid.Bool().Draw(t, "required"); must {
			required, there = append(required, name), true
		}
		if there {
			values, all = append(values, name+":"+v), append(all, name+":"+f)
		} else {
			all = append(all, name+":null")
		}
	}
	schema = fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, strings.Join(properties, ","), strings.Join(required, ","))
	return schema, "{" + strings.Join(values, ",") + "}", "{" + strings.Join(all, ",") + "}"
}

func drawValue(t *rapid.T, depth int) (schema, value, filled string) {
	kind := rapid.IntRange(0, 8).Draw(t, "kind")
	if depth == 0 {
		kind %= 6
	}
	switch kind {
	case 0:
		return `{"type":"string","minLength":1,"pattern":"^a"}`, `"abc"`, `"abc"`
	case 1:
		return `{"type":"integer","minimum":1}`, `9007199254740993`, `9007199254740993`
	case 2:
		return `{"type":["string","null"],"description":"x"}`, `null`, `null`
	case 3:
		return `{"type":["string","null"],"enum":["a",null]}`, `"a"`, `"a"`
	case 4:
		return `{"const":7}`, `7`, `7`
	case 5:
		return `{"oneOf":[{"type":"string"},{"type":"integer","maximum":5}]}`, `3`, `3`
	case 6:
		s, v, f := drawValue(t, depth-1)
		return `{"type":"array","items":` + s + `}`, "[" + v + "," + v + "]", "[" + f + "," + f + "]"
	case 7:
		s, v, f := drawObject(t, depth)
		return `{"anyOf":[` + s + `,{"type":"null"}]}`, v, f
	}
	return drawObject(t, depth)
}
