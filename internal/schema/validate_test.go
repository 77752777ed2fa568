package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// schema compiles a schema, and fails the test if it can't.
func schema(t testing.TB, s string) *Schema {
	t.Helper()
	c, err := Compile(json.RawMessage(s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const weather = `{"type":"object","properties":{
	"city":{"type":"string","description":"City name"},
	"days":{"type":"integer","minimum":1,"maximum":10},
	"units":{"type":"string","enum":["metric","imperial"]},
	"detail":{"type":"boolean"},
	"at":{"type":"string","format":"date-time"},
	"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true}
},"required":["city"],"additionalProperties":false}`

func TestAValidationErrorLetsAModelCorrectItself(t *testing.T) {
	s := schema(t, weather)
	for value, want := range map[string]string{
		`{}`: `/city: is required (a string: City name)`,
		`{"citty":"Oslo"}`: `/citty: there is no property "citty"; did you mean ` +
			`"city"?; the properties are "at", "city", "days", "detail", "tags", "units"; /city: ` +
			`is required (a string: City name)`,
		`{"city":"Oslo","days":"3"}`:  `/days: must be an integer, got "3"`,
		`{"city":"Oslo","days":11.5}`: `/days: must be an integer, got 11.5`,
		`{"city":"Oslo","days":11}`:   `/days: must be at most 10, got 11`,
		`{"city":null}`:               `/city: must be a string, got null`,
		`{"city":"a","units":"kelvin"}`: `/units: must be one of "metric", ` +
			`"imperial", got "kelvin"`,
		`{"city":"a","at":"now"}`: `/at: must be a valid date-time, such as ` +
			`2006-01-02T15:04:05Z, got "now"`,
		`{"city":"a","tags":["x",1]}`: `/tags/1: must be a string, got 1`,
		`{"city":"a","tags":["x","x"]}`: `/tags: must have no equal items: those at 0 and 1 are, ` +
			`got ["x","x"]`,
		`[]`: `must be an object, got []`,
		`{"city":"` + strings.Repeat("x", 99) + `","days":0}`: `/days: must be at least 1, got 0`,
	} {
		err := s.Validate(json.RawMessage(value))
		var v *misfit.Error
		if !errors.As(err, &v) {
			t.Errorf("%s was taken", value)
			continue
		}
		same(t, err.Error(), want)
		if v.Faults[0].Rule == "" {
			t.Errorf("%+v has no rule", v.Faults[0])
		}
	}
	err := s.Validate(json.RawMessage(`{"city":["` + strings.Repeat("x", 99) + `"]}`))
	same(t, err.Error(), `/city: must be a string, got ["`+strings.Repeat("x", 58)+`...`)
	const good = `{"city":"Oslo","days":1.0e1,"at":"2024-02-29T00:00:00+01:00","tags":[]}`
	if err := s.Validate(json.RawMessage(good)); err != nil {
		t.Error(err)
	}
}

func TestEachRuleHasItsWords(t *testing.T) {
	for s, c := range map[string][2]string{
		`{"const":"a"}`: {`"b"`, `must be "a", got "b"`},
		`{"enum":[1,"a",null]}`: {`2`,
			`must be one of 1, "a", null, got 2`},
		`{"minimum":1.5}`: {`1`, `must be at least 1.5, got 1`},
		`{"maximum":9007199254740993}`: {`9007199254740994`,
			`must be at most 9007199254740993, got 9007199254740994`},
		`{"exclusiveMinimum":1}`: {`1`, `must be more than 1, got 1`},
		`{"exclusiveMaximum":1e3}`: {`1000`,
			`must be less than 1000, got 1000`},
		`{"multipleOf":0.1}`: {`0.25`,
			`must be a multiple of 0.1, got 0.25`},
		`{"minLength":2}`: {`"ä"`,
			`must have at least 2 characters, has 1, got "ä"`},
		`{"maxLength":1}`: {`"ab"`,
			`must have at most 1 characters, has 2, got "ab"`},
		`{"pattern":"^a"}`: {`"b"`,
			`must match the regular expression ^a, got "b"`},
		`{"minItems":1}`: {`[]`,
			`must have at least 1 items, has 0, got []`},
		`{"maxItems":1}`: {`[1,2]`,
			`must have at most 1 items, has 2, got [1,2]`},
		`{"minProperties":1}`: {`{}`,
			`must have at least 1 properties, has 0, got {}`},
		`{"maxProperties":0}`: {`{"a":1}`,
			`must have at most 0 properties, has 1, got {"a":1}`},
		`{"propertyNames":{"maxLength":1}}`: {`{"ab":1}`,
			`the key "ab" must have at most 1 characters, has 2, got {"ab":1}`},
		`{"dependentRequired":{"a":["b"]}}`: {`{"a":1}`,
			`must have "b", since it has "a", got {"a":1}`},
		`{"contains":{"type":"null"}}`: {`[1]`,
			`has too few items of the kind that the schema asks for, got [1]`},
		`{"contains":{},"maxContains":1}`: {`[1,2]`,
			`does not fit the schema: max 1 items required to match contains schema, but matched ` +
				`2 items at 0 1, got [1,2]`},
		`{"properties":{"a":false}}`: {`{"a":1}`,
			`/a: is not allowed here, got 1`},
		`{"not":{"type":"null"}}`: {`null`,
			`is what the schema excludes, got null`},
		`{"type":["integer","null"]}`: {`"a"`,
			`must be null or an integer, got "a"`},
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`: {`1`,
			`must be null or a string, got 1`},
		`{"oneOf":[{"type":"integer"},{"minimum":1}]}`: {`1`,
			`must fit exactly one of the schema's alternatives, and fits several, got 1`},
		`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`: {`{}`,
			`fits none of the schema's alternatives; the closest one fails by what follows, got ` +
				`{}; /a: is required`},
		`{"allOf":[{"minimum":3},{"minimum":5}]}`: {`1`,
			`must be at least 3, got 1; must be at least 5, got 1`},
		`{"anyOf":[{"type":"object","properties":{"a":{"properties":{"b":{"type":"null"}}}}},` +
			`{"type":"null"}]}`: {`{"a":{"b":1}}`, `/a/b: must be null, got 1`},
		`{"properties":{"a/b~":{"type":"null"}}}`: {
			`{"a/b~":1}`, `/a~1b~0: must be null, got 1`},
		`{"properties":{"a%":{"required":["b"],"properties":{"b":{"type":"null"}}}}}`: {`{"a%":{}}`,
			`/a%/b: is required (null)`},
		`{"contentEncoding":"base64"}`: {`"!"`, `must be encoded as base64, got "!"`},
		`{"format":"email"}`: {`"x"`,
			`must be a valid email, such as ada@example.com, got "x"`},
		`{"format":"semver"}`: {`"x"`, `must be a valid semver, got "x"`},
		`{"additionalProperties":false}`: {`{"a":1}`,
			`/a: there is no property "a"; there are no properties`},
		`{"multipleOf":3e-1}`: {`1`, `must be a multiple of 0.3, got 1`},
	} {
		err := schema(t, s).Validate(json.RawMessage(c[0]))
		if err == nil {
			t.Errorf("%s took %s", s, c[0])
			continue
		}
		same(t, err.Error(), c[1])
	}
}

func TestAValidationErrorIsTheSameEachTime(t *testing.T) {
	s := schema(t,
		`{"properties":{"a":{"type":"null"},"b":{"minimum":3,"multipleOf":2},`+
			`"c":{"anyOf":[{"minLength":2},{"pattern":"x"}]}},"required":["d","e"],`+
			`"additionalProperties":false}`)
	want := s.Validate(json.RawMessage(`{"a":1,"b":1,"c":"","x":1,"y":2}`)).Error()
	for range 50 {
		same(t, s.Validate(json.RawMessage(`{"a":1,"b":1,"c":"","x":1,"y":2}`)).Error(), want)
	}
	list := "[" + strings.Repeat(`1,`, 99) + `1]`
	err := schema(t, `{"items":{"type":"string"}}`).Validate(json.RawMessage(list))
	var v *misfit.Error
	if !errors.As(err, &v) || len(v.Faults) != 8 || v.More != 92 {
		t.Fatal(err)
	}
	contains(t, err.Error(), "; and 92 more")
}

func TestDeepNestingIsRefusedNotFollowed(t *testing.T) {
	s := schema(t, `{"items":{"$ref":"#"}}`)
	deep := strings.Repeat("[", 1e6)
	contains(t, s.Validate(json.RawMessage(deep)).Error(),
		"it is nested more than 1000 deep (at byte 1000)")
	contains(t, s.Validate(json.RawMessage(strings.Repeat(`{"a":`, 1e6))).Error(),
		"nested more than 1000 deep")
	deep = strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	if err := s.Validate(json.RawMessage(deep)); err != nil {
		t.Error(err)
	}
	if _, err := Compile(json.RawMessage(strings.Repeat(`{"items":`, 1e5))); err == nil {
		t.Error("a schema without an end was compiled")
	}
	deep = strings.Repeat(`{"items":`, 199) + "{}" + strings.Repeat("}", 199)
	if _, err := Compile(json.RawMessage(deep)); err != nil {
		t.Error(err)
	}
}

func TestASchemaThatRefersToItselfForEverFitsNothing(t *testing.T) {
	for _, s := range []string{
		`{"$ref":"#"}`,
		`{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`,
		`{"anyOf":[{"$ref":"#"}]}`,
	} {
		c, err := Compile(json.RawMessage(s))
		if err != nil {
			continue
		}
		if err := c.Validate(json.RawMessage("1")); err == nil {
			t.Errorf("%s took something", s)
		}
	}
}

func TestHugeNumbersCostNoTime(t *testing.T) {
	s := schema(t, `{"items":{"type":"integer","minimum":0}}`)
	start := time.Now()
	for _, n := range []string{"1e999999999", "1e-999999999", "1e1001", strings.Repeat("9", 5000)} {
		err := s.Validate(json.RawMessage("[" + n + "]"))
		if err == nil {
			t.Fatalf("%s was taken", excerpt.Of(n))
		}
		contains(t, err.Error(), "/0: it is no valid JSON: ")
	}
	big := "[" + strings.Repeat("1e1000,", 3000) + "1]"
	if err := s.Validate(json.RawMessage(big)); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	if _, err := Compile(json.RawMessage(`{"minimum":1e999999999}`)); err == nil {
		t.Error("a schema with a huge number was compiled")
	}
}

func TestOnlyResultsMayHaveKeysThatDifferByCase(t *testing.T) {
	s := schema(t, `{"additionalProperties":{"type":"integer"}}`)
	for _, c := range []*Schema{s, schema(t, ``)} {
		if err := c.ValidateResult(json.RawMessage(`{"The":1,"the":2}`)); err != nil {
			t.Error(err)
		}
		if err := c.Validate(json.RawMessage(`{"The":1,"the":2}`)); err == nil {
			t.Error("they were taken in what Go decodes")
		}
		if err := c.ValidateResult(json.RawMessage(`{"a":1`)); err == nil {
			t.Error("half an object was taken")
		}
	}
	if err := s.ValidateResult(json.RawMessage(`{"the":1,"the":2}`)); err == nil {
		t.Error("a key was taken twice")
	}
}

func TestASchemaReadsNothingFromElsewhere(t *testing.T) {
	for _, ref := range []string{"file:///etc/passwd", "https://example.com/x", "other.json",
		"urn:x", "#/nowhere", "//host/x"} {
		if _, err := Compile(json.RawMessage(fmt.Sprintf(`{"$ref":%q}`, ref))); err == nil {
			t.Errorf("%s was read", ref)
		}
	}
	if _, err := Compile(json.RawMessage(`{"$schema":"https://example.com/dialect"}`)); err == nil {
		t.Error("a dialect was read")
	}
	const old = `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"null"}]}`
	s, err := Compile(json.RawMessage(old))
	if err != nil || s.Validate(json.RawMessage("[1]")) == nil {
		t.Error("draft 7 is not known", err)
	}
}

func TestACacheIsBounded(t *testing.T) {
	c := Cache{Max: 2}
	compile := func(s string) *Schema {
		t.Helper()
		got, err := c.Compile(json.RawMessage(s))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := compile(`{"minimum":1}`), compile(`{"minimum":2}`)
	if compile(`{"minimum":1}`) != a || compile(`{"minimum":2}`) != b {
		t.Error("a schema was compiled twice")
	}
	compile(`{"minimum":1}`)
	compile(`{"minimum":3}`) // the second one goes
	if compile(`{"minimum":1}`) != a {
		t.Error("the one used last was dropped")
	}
	if compile(`{"minimum":2}`) == b {
		t.Error("the oldest one was kept")
	}
	same(t, c.byText.Len(), 2)
	if _, err := c.Compile(json.RawMessage(`{`)); err == nil || c.byText.Len() != 2 {
		t.Error("an error was kept:", err)
	}
	if s, err := (*Cache)(nil).Compile(json.RawMessage(`{}`)); err != nil || s == nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				s := fmt.Sprintf(`{"minimum":%d}`, (i+j)%5)
				got, err := c.Compile(json.RawMessage(s))
				if err != nil || got.Validate(json.RawMessage("-1")) == nil {
					t.Errorf("%s: %v", s, err)
				}
			}
		})
	}
	wg.Wait()
}

// A reference with a path or an escape in it is not to the definition whose
// name is written in that way.
func TestReferencesAreReadAsPointers(t *testing.T) {
	for _, schema := range []string{
		`{"$defs":{"a":{"properties":{"x":{"type":"integer"}}},"a/properties/x":{}},` +
			`"properties":{"v":{"$ref":"#/$defs/a/properties/x"}}}`,
		`{"$defs":{"a b":{"type":"integer"},"a%20b":{}},` +
			`"properties":{"v":{"$ref":"#/$defs/a%20b"}}}`,
		`{"$defs":{"a~b":{"type":"integer"},"a~0b":{}},"properties":{"v":{"$ref":"#/$defs/a~0b"}}}`,
	} {
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(json.RawMessage(`{"v":"text"}`)) == nil ||
			s.Validate(json.RawMessage(`{"v":1}`)) != nil {
			t.Errorf("%s takes a text for an integer, or no integer", schema)
		}
	}
}
