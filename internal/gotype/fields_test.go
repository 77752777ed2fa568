package gotype

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
)

type (
	leafA struct{ A, B int }
	leafB struct {
		B int `json:"b"`
		C int `json:"A"`
	}
	LeafC  struct{ A int }
	count  int
	Number int
	text   string
)

// awkward are structs whose fields follow from all of encoding/json's rules.
var awkward = []any{
	struct{}{},
	struct{ A, b int }{},
	reflect.New(reflect.StructOf([]reflect.StructField{ // go vet would find them in a literal type
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		{Name: "C", Type: reflect.TypeFor[int]()},
	})).Elem().Interface(),
	struct {
		A int `json:"B"`
		B int
	}{},
	struct {
		leafA
		A int
	}{},
	struct {
		leafA
		leafB
	}{},
	struct {
		LeafC
		leafA
	}{},
	struct {
		*LeafC
		B *leafB
	}{},
	struct {
		LeafC `json:"named"`
		leafB `json:"-"`
	}{},
	struct {
		count
		Number
		text
	}{},
	struct {
		B int `json:"a b,omitempty"`
		C int `json:",string"`
		D int `json:"é"`
		//lint:ignore SA5008 it is what encoding/json makes of it that is tested
		E int `json:"-,"`
		F int `json:"-"`
	}{},
	struct {
		*Emb
		Deep struct{ *LeafC }
	}{},
	struct {
		X struct {
			leafA
			Y struct{ LeafC }
		}
		leafA
	}{},
	struct {
		T time.Duration
		F func() `json:"-"`
	}{},
	twice{},
}

type (
	left  struct{ LeafC }
	right struct{ LeafC }
	twice struct {
		left
		right
		Z int
	}
)

func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	for _, v := range slices.Concat(awkward, malformed) {
		p := reflect.New(reflect.TypeOf(v))
		fill(p.Elem())
		text, err := json.Marshal(p.Interface())
		if err != nil {
			t.Fatal(err)
		}
		o, err := jsontree.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, m := range o.(*jsontree.Object).Members {
			want = append(want, m.Key)
		}
		for _, f := range jsonFields(p.Elem().Type()) {
			got = append(got, f.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%T has %q, encoding/json writes %q", v, got, want)
		}
		w := newWalker(writing, false, p.Elem().Type())
		s, err := w.bare(p.Elem().Type(), "", true)
		if err != nil {
			t.Fatal(err)
		}
		c, err := schema.Compile(s.Raw())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ValidateResult(text); err != nil {
			t.Errorf("%T: %s does not fit %s: %v", v, text, s.Raw(), err)
		}
	}
}

// fill makes what can be set no zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		if v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		}
	case reflect.Int, reflect.Int64:
		if v.CanSet() {
			v.SetInt(1)
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("x")
		}
	}
}

func TestATagSaysWhatItSays(t *testing.T) {
	type in struct {
		A string   `json:"a" jsonschema:"City name"`
		B bool     `json:"b" jsonschema:"description=If true, descend."`
		C string   `json:"c" jsonschema:"enum=a, enum=b,enum=c d"`
		D string   `json:"d" jsonschema:"A, b, required by law, not more"`
		E string   `json:"e,omitempty" jsonschema:"Its name,required"`
		F string   `json:"f" jsonschema:"description=Lists a\\, minLength=2 is no rule,minLength=3"`
		G []int    `json:"g" jsonschema:"minItems=1,uniqueItems,minimum=2,enum=2,enum=3,description=Some"`
		H float64  `json:"h" jsonschema:"title=T,exclusiveMinimum=0.5,multipleOf=0.1,example=1.5,example=2"`
		I int8     `json:"i" jsonschema:"minimum=-500,maximum=5"`
		J string   `json:"j" jsonschema:"pattern=^[a-z]{1,3}=x$,format=email,maxLength=9"`
		K []string `json:"k" jsonschema:"default=[\"a\",\"b\"]"`
		L any      `json:"l" jsonschema:"enum=1,enum=x,const=true"`
		M string   `json:"m" jsonschema:"the ratio a=b of things"`
		N string   `json:"n" jsonschema:"-"`
		O int      `json:"o" jsonschema_description:"Old style, with comma" jsonschema:"deprecated"`
		P *string  `json:"p" jsonschema:"Perhaps,enum=x"`
		Q inner    `json:"q" jsonschema:"minProperties=1"`
	}
	s := input[in](t)
	contains(t, s,
		`"a":{"type":"string","description":"City name"}`,
		`"b":{"type":"boolean","description":"If true, descend."}`,
		`"c":{"type":"string","enum":["a","b","c d"]}`,
		`"d":{"type":"string","description":"A, b, required by law, not more"}`,
		`"e":{"type":"string","description":"Its name"}`,
		`"f":{"type":"string","description":"Lists a, minLength=2 is no rule","minLength":3}`,
		`"g":{"type":"array","items":{"type":"integer","minimum":2,"enum":[2,3]},"minItems":1,`+
			`"uniqueItems":true,"description":"Some"}`,
		`"h":{"type":"number","title":"T","exclusiveMinimum":0.5,"multipleOf":0.1,`+
			`"examples":[1.5,2]}`,
		`"i":{"type":"integer","minimum":-128,"maximum":5}`,
		`"j":{"type":"string","pattern":"^[a-z]{1,3}=x$","format":"email","maxLength":9}`,
		`"k":{"type":"array","items":{"type":"string"},"default":["a","b"]}`,
		`"l":{"enum":[1,"x"],"const":true}`,
		`"m":{"type":"string","description":"the ratio a=b of things"}`,
		`"o":{"type":"integer","deprecated":true,"description":"Old style, with comma"}`,
		`"p":{"type":["string","null"],"description":"Perhaps","enum":["x",null]}`,
		`"minProperties":1}`,
		`"required":["a","b","c","d","e","f","g","h","i","j","l","m","o","q"]`,
	)
	if strings.ContainsRune(s, '\\') || strings.Contains(s, `"n":`) {
		t.Error(s)
	}
}

func TestFieldsThatDifferOnlyByCaseCanNotBothBeGiven(t *testing.T) {
	contains(t, inputError[struct {
		A int `json:"key"`
		B int `json:"Key"`
	}](t), `field B: its name "Key" differs from "key" only by case`)
	text, err := Encode(ptr(struct {
		A int `json:"key"`
		B int `json:"Key"`
	}{1, 2}))
	if err != nil || string(text) != `{"key":1,"Key":2}` {
		t.Errorf("%s %v", text, err)
	}
}

func TestATagThatMakesNoSenseIsAnErrorThatNamesTheField(t *testing.T) {
	for tag, want := range map[string]string{
		`minLenght=3`:                 `unknown keyword "minLenght"`,
		`minimum=3,nonsense=4`:        `unknown keyword "nonsense"`,
		`required,City name`:          `"City name" after a flag`,
		`minimum=x`:                   "minimum=x: a number is expected",
		`minimum=`:                    "a number is expected",
		`minLength=3`:                 "minLength does not go with a JSON integer",
		`minItems=3`:                  "does not go with a JSON integer",
		`type=string`:                 "the type follows from the field's",
		`default=x`:                   "a number is expected",
		`uniqueItems=maybe`:           "does not go with",
		`deprecated=maybe`:            "true or false is expected",
		`oneof_type=string;integer`:   `unknown keyword "oneof_type"`,
		`enum=1,enum=two`:             "a number is expected",
		`description=x,minimum=1,y=2`: `unknown keyword "y"`,
	} {
		field := reflect.StructField{Name: "N", Type: reflect.TypeFor[int](),
			Tag: reflect.StructTag(fmt.Sprintf("jsonschema:%q", tag))}
		w := newWalker(reading, false, reflect.StructOf([]reflect.StructField{field}))
		_, err := w.bare(reflect.StructOf([]reflect.StructField{field}), "", true)
		if err == nil {
			t.Errorf("%s: no error", tag)
			continue
		}
		contains(t, err.Error(), "field N: the schema tag", want)
	}
	contains(t, inputError[struct {
		N bool `jsonschema:"default=maybe"`
	}](t), "true or false")
	contains(t, inputError[struct {
		N []int `jsonschema:"default=x"`
	}](t), "a JSON array is expected")
	contains(t, inputError[struct {
		N []int `jsonschema:"minItems=-1"`
	}](t), "a whole number is expected")
	contains(t, inputError[struct {
		N int `jsonschema_extras:"a=b"`
	}](t), "jsonschema_extras is not supported")
	_, err := NewOutput[struct {
		N int `jsonschema:"-"`
	}](nil)
	contains(t, err.Error(), `field N: jsonschema:"-" would hide`)
}
