package gotype

import (
	"encoding/json"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/schema"
)

// The types whose schemas are easy to get wrong. Each test checks the schema,
// and that values that fit it arrive.

type node struct {
	Name string  `json:"name"`
	Kids []*node `json:"kids,omitempty"`
}

type (
	ping struct {
		Pong *pong `json:"pong,omitempty"`
	}
	pong struct {
		Ping *ping `json:"ping,omitempty"`
	}
	byName     map[string]byName
	tree       []tree
	box[T any] struct {
		V    T       `json:"v"`
		Next *box[T] `json:"next,omitempty"`
	}
	inner struct {
		X int `json:"x"`
	}
)

func TestARecursiveTypeHasItsRootWrittenOutAndItsReferencesResolved(t *testing.T) {
	contains(t, input[node](t), `{"type":"object","properties":{"name":`, `{"$ref":"#/$defs/node"}`,
		`"$defs":{"node":{"type":"object"`)
	if _, err := given[node](t, `{"name":"a","kids":[{"name":"b"}]}`); err != nil {
		t.Error(err)
	}
	_, err := given[node](t, `{"name":"a","kids":[{}]}`)
	contains(t, err.Error(), "/kids/0/name: is required (a string)")
	_, err = given[node](t, `{"name":"a","kids":[null]}`)
	contains(t, err.Error(), "/kids/0: must be an object, got null")
}

func TestRecursionIsFoundThroughOthersMapsListsAndGenerics(t *testing.T) {
	if _, err := given[ping](t, `{"pong":{"ping":{"pong":null}}}`); err != nil {
		t.Error(err)
	}
	if _, err := given[byName](t, `{"a":{"b":{}}}`); err != nil {
		t.Error(err)
	}
	if _, err := given[byName](t, `{"a":{"b":1}}`); err == nil {
		t.Error("a number was taken for a map")
	}
	if _, err := given[tree](t, `{"value":[[],[[]]]}`); err != nil {
		t.Error(err)
	}
	if v, err := given[box[inner]](t, `{"v":{"x":1},"next":{"v":{"x":2}}}`); err != nil ||
		v.Next.V.X != 2 {
		t.Error(v, err)
	}
	for _, s := range []string{output[ping](t), output[byName](t), output[tree](t),
		output[box[node]](t)} {
		if _, err := schema.Compile(raw(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestAGenericTypesDefinitionHasASafeName(t *testing.T) {
	s := input[box[node]](t)
	contains(t, s, `"$ref":"#/$defs/box_gotype_node"`)
	if strings.ContainsAny(s, "[/") && strings.Contains(s, "fermata-ai") {
		t.Errorf("an import path is in %s", s)
	}
}

func TestATypeThatIsUsedTwiceIsWrittenOutTwice(t *testing.T) {
	s := input[struct{ A, B inner }](t)
	same(t, strings.Count(s, `"x":{"type":"integer"}`), 2)
	if strings.Contains(s, "$ref") || strings.Contains(s, "$schema") || strings.Contains(s, "$id") {
		t.Error(s)
	}
}

type (
	wide0 struct{ A, B, C, D, E, F, G, H int }
	wide1 struct{ A, B, C, D, E, F, G, H wide0 }
	wide2 struct{ A, B, C, D, E, F, G, H wide1 }
	wide3 struct{ A, B, C, D, E, F, G, H wide2 }
	wide4 struct{ A, B, C, D, E, F, G, H wide3 }
)

func TestASchemaThatWouldBeHugeIsAnErrorUntilItIsGiven(t *testing.T) {
	contains(t, inputError[wide4](t), "20000 parts", "by hand")
	if _, err := NewInput[wide4](raw(`{}`)); err != nil {
		t.Error(err)
	}
	if _, err := NewOutput[wide4](raw(`{}`)); err != nil {
		t.Error(err)
	}
}

func TestOpenTypesAreOpenObjectsNotBooleans(t *testing.T) {
	type in struct {
		Raw json.RawMessage
		Any any
		M   map[string]any
	}
	same(t, input[in](t),
		`{"type":"object","properties":{"Raw":{},"Any":{},"M":{"type":"object"}},`+
			`"required":["Raw","Any","M"],"additionalProperties":false}`)
	for _, v := range []string{`null`, `1`, `"s"`, `[]`, `{}`, `{"b":1,"a": 9007199254740993}`} {
		got, err := given[in](t, `{"Raw":`+v+`,"Any":1e3,"M":{}}`)
		if err != nil || string(got.Raw) != v {
			t.Errorf("%s arrived as %s, %v", v, got.Raw, err)
		}
	}
	contains(t, inputError[struct{ E error }](t), "field E", "the interface error")
	same(t, output[error](t), "")
	same(t, output[struct{ E error }](t),
		`{"type":"object","properties":{"E":{}},"required":["E"],"additionalProperties":false}`)
}

func TestAnAnyToolTakesEveryObject(t *testing.T) {
	same(t, input[any](t), `{"type":"object","properties":{}}`)
	same(t, input[json.RawMessage](t), `{"type":"object","properties":{}}`)
	same(t, input[map[string]any](t), `{"type":"object","properties":{}}`)
	if v, err := given[any](t, `{"a":9007199254740993}`); err != nil ||
		!reflect.DeepEqual(v, map[string]any{"a": json.Number("9007199254740993")}) {
		t.Error(v, err)
	}
	if v, err := given[json.RawMessage](t, `{"b":1, "a":2}`); err != nil ||
		string(v) != `{"b":1, "a":2}` {
		t.Errorf("%s %v", v, err)
	}
	if _, err := given[any](t, `[1]`); err == nil {
		t.Error("a list was taken for an object")
	}
}

type (
	myDate  struct{ time.Time }
	myText  struct{ s string }
	level   string
	pointed struct{ n int }
)

func (m *myText) UnmarshalText(b []byte) error { m.s = string(b); return nil }
func (m myText) MarshalText() ([]byte, error)  { return []byte(m.s), nil }

func (l *level) UnmarshalJSON(b []byte) error {
	*l = level(strings.Trim(string(b), `"`))
	return nil
}

func (p *pointed) MarshalJSON() ([]byte, error) { return json.Marshal([]int{p.n}) }
func (p *pointed) UnmarshalJSON(b []byte) error {
	var list []int
	err := json.Unmarshal(b, &list)
	if len(list) > 0 {
		p.n = list[0]
	}
	return err
}

func TestTypesThatEncodeThemselvesTakeWhatTheyMake(t *testing.T) {
	type in struct {
		D myDate     `json:"d"`
		B *big.Int   `json:"b"`
		C big.Int    `json:"c"`
		A netip.Addr `json:"a"`
		N json.Number
		T myText
		L level `jsonschema:"type=string,enum=low,enum=high"`
		P pointed
		I net.IP
		F *big.Float
	}
	s := input[in](t)
	contains(t, s, `"d":{}`, `"b":{"type":["integer","null"]}`, `"c":{"type":"integer"}`,
		`"a":{"type":"string"}`,
		`"N":{"type":"number"}`, `"T":{"type":"string"}`,
		`"L":{"type":"string","enum":["low","high"]}`, `"P":{}`, `"I":{"type":"string"}`)
	args := `{"d":"2024-02-29T00:00:00Z","b":123456789012345678901234567890,"c":7,` +
		`"a":"192.0.2.1","N":1.50,"T":"x","L":"low",` +
		`"P":[3],"I":"2001:db8::1","F":"1.5"}`
	v, err := given[in](t, args)
	if err != nil {
		t.Fatal(err)
	}
	if v.D.Day() != 29 || v.B.String() != "123456789012345678901234567890" || v.P.n != 3 ||
		v.N != "1.50" || v.L != "low" {
		t.Errorf("%+v", v)
	}
	text, err := Encode(ptr(v))
	if err != nil || string(text) != args {
		t.Errorf("came back as %s, %v", text, err)
	}
	out, err := schema.Compile(raw(output[in](t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Validate(text); err != nil {
		t.Error(err)
	}
}

func TestAMethodOfThePointerThatIsNotCalledInAMapIsAnError(t *testing.T) {
	_, err := NewOutput[map[string]pointed](nil)
	contains(t, err.Error(),
		`field []: gotype.pointed encodes itself by a method of *gotype.pointed`)
	_, err = NewOutput[struct{ M map[string]big.Int }](nil)
	contains(t, err.Error(), "field M[]", "*big.Int")
	text, err := Encode(ptr(map[string]*pointed{"a": {1}}))
	if err != nil || string(text) != `{"a":[1]}` {
		t.Errorf("%s %v", text, err)
	}
}

func TestNumbersHaveTheBoundsOfTheirTypes(t *testing.T) {
	type in struct {
		U uint8         `json:"u"`
		I int16         `json:"i"`
		D time.Duration `json:"d"`
		Z uint64        `json:"z"`
	}
	contains(t, input[in](t), `"u":{"type":"integer","minimum":0,"maximum":255}`,
		`"i":{"type":"integer","minimum":-32768,"maximum":32767}`,
		`"d":{"type":"integer","description":"a duration in nanoseconds"}`,
		`"z":{"type":"integer","minimum":0}`)
	_, err := given[in](t, `{"u":300,"i":-40000,"d":1,"z":-1}`)
	contains(t, err.Error(), "/u: must be at most 255, got 300",
		"/i: must be at least -32768, got -40000", "/z: must be at least 0")
	_, err = given[in](t, `{"u":1,"i":1,"d":9223372036854775808,"z":1}`)
	contains(t, err.Error(),
		"/d: must be a whole number from -9223372036854775808 to 9223372036854775807, and is a "+
			"number 9223372036854775808")
}

func TestBytesAreBase64(t *testing.T) {
	type in struct {
		B []byte `json:"b"`
	}
	contains(t, input[in](t), `"b":{"type":"string","contentEncoding":"base64"}`)
	if v, err := given[in](t, `{"b":"aGk="}`); err != nil || string(v.B) != "hi" {
		t.Error(v, err)
	}
	_, err := given[in](t, `{"b":"!"}`)
	contains(t, err.Error(), `/b: must be encoded as base64, got "!"`)
	text, err := Encode(ptr(in{}))
	if err != nil || string(text) != `{"b":null}` {
		t.Errorf("%s %v", text, err)
	}
	contains(t, output[in](t), `"b":{"type":["string","null"],"contentEncoding":"base64"}`)
}

func TestAMapWithIntegerKeysTakesNegativeOnes(t *testing.T) {
	v, err := given[map[int]string](t, `{"-1":"a","20":"b"}`)
	if err != nil || v[-1] != "a" {
		t.Error(v, err)
	}
	for _, key := range []string{"x", "1.5", "01", "+1", "-0", ""} {
		if _, err := given[map[int]string](t, `{"`+key+`":"a"}`); err == nil {
			t.Errorf("the key %q was taken", key)
		}
	}
	_, err = given[map[uint]string](t, `{"-1":"a"}`)
	contains(t, err.Error(), `the key "-1" must be a whole number from 0 to 18446744073709551615`)
	if v, err := given[map[netip.Addr]int](t, `{"192.0.2.1":1}`); err != nil || len(v) != 1 {
		t.Error(v, err)
	}
	contains(t, inputError[map[bool]int](t), "keys of type bool")
}

// Emb is embedded.
type Emb struct {
	E int `json:"e"`
}

type hidden struct{ H int }

func TestRequiredFollowsOneRule(t *testing.T) {
	type in struct {
		A *string `json:"a"`
		B string  `json:"b,omitempty" jsonschema:"required"`
		C string  `json:"c,omitzero"`
		D *int    `json:"d" jsonschema:"required"`
		N string  `json:"n" jsonschema:"nullable"`
		*Emb
	}
	s := input[in](t)
	contains(t, s, `"required":["b","d","n"]`, `"a":{"type":["string","null"]}`,
		`"e":{"type":"integer"}`, `"n":{"type":["string","null"]}`)
	for args, want := range map[string]string{
		`{"b":"","d":null,"n":null}`:         "",
		`{"b":"","d":1,"n":"","a":null}`:     "",
		`{"b":"","d":1,"n":"","a":"","e":1}`: "",
		`{}`: `/b: is required (a string); /d: is required; /n: ` +
			`is required`,
		`{"b":null,"d":1,"n":""}`:             `/b: must be a string, got null`,
		`{"b":"","d":1,"n":"","c":null}`:      `/c: must be a string, got null`,
		`{"b":"","d":1,"n":"","e":null}`:      `/e: must be an integer, got null`,
		`{"b":"","d":1,"n":"","Emb":{"e":1}}`: `/Emb: there is no property "Emb"`,
	} {
		_, err := given[in](t, args)
		if want == "" && err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if want != "" {
			if err == nil {
				t.Errorf("%s was taken", args)
				continue
			}
			contains(t, err.Error(), want)
		}
	}
}

func TestAnEmbeddedPointerThatCanNotBeSetIsAnErrorForInputOnly(t *testing.T) {
	contains(t, inputError[struct{ *hidden }](t), "field hidden.H",
		"embedded pointer to an unexported struct")
	text, err := Encode(ptr(struct{ *hidden }{&hidden{1}}))
	if err != nil || string(text) != `{"H":1}` {
		t.Errorf("%s %v", text, err)
	}
	if _, err := given[struct{ hidden }](t, `{"H":1}`); err != nil {
		t.Error(err)
	}
}

func TestAFieldNamedByADashIsThere(t *testing.T) {
	type in struct {
		//lint:ignore SA5008 it is what encoding/json makes of it that is tested
		Dash int `json:"-,"`
		Not  int `json:"-"`
	}
	contains(t, input[in](t), `"properties":{"-":{"type":"integer"}}`)
	if v, err := given[in](t, `{"-":3}`); err != nil || v.Dash != 3 {
		t.Error(v, err)
	}
}

func TestTheStringOptionIsFollowed(t *testing.T) {
	type in struct {
		I int     `json:"i,string"`
		F float64 `json:"f,string"`
		B bool    `json:"b,string"`
		S string  `json:"s,string"`
		//lint:ignore SA5008 the option has no meaning here, and must not be followed
		L []int `json:"l,string"`
	}
	args := `{"i":"-5","f":"1.5e+30","b":"true","s":"\"x\"","l":[1]}`
	v, err := given[in](t, args)
	if err != nil || v.I != -5 || v.S != "x" || v.L[0] != 1 {
		t.Error(v, err)
	}
	text, err := Encode(ptr(v))
	if err != nil || string(text) != args {
		t.Errorf("%s %v", text, err)
	}
	if _, err := given[in](t, strings.Replace(args, `"-5"`, `-5`, 1)); err == nil {
		t.Error("a plain number was taken")
	}
}

func TestAnArrayHasItsLength(t *testing.T) {
	contains(t, input[[2]int](t), `"items":{"type":"integer"},"minItems":2,"maxItems":2`)
	_, err := given[[2]int](t, `{"value":[1,2,3]}`)
	contains(t, err.Error(), "/value: must have at most 2 items, has 3")
}

func TestAStructWithoutJSONMethodsIsItsFields(t *testing.T) {
	contains(t, input[url.URL](t), `"Scheme":{"type":"string"}`)
	text, err := Encode(ptr(url.URL{Host: "h"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := given[url.URL](t, string(text)); err != nil {
		t.Error(err)
	}
}

func TestTypesWithoutAJSONFormAreErrorsThatNameTheField(t *testing.T) {
	contains(t, inputError[chan int](t), `the type chan int has no JSON form`)
	contains(t, inputError[struct{ A struct{ B []func() } }](t),
		"field A.B[]: the type func() has no JSON form")
	contains(t, inputError[struct{ C complex128 }](t), "field C")
	_, err := NewOutput[struct{ M map[string]chan int }](nil)
	contains(t, err.Error(), `field M[]: the type chan int`)
	type loop *loop
	contains(t, inputError[struct{ L loop }](t), "field L", "points to itself")
}
