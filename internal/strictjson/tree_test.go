package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

func TestParse(t *testing.T) {
	got, err := strictjson.Parse(` {"a":[1.0e2,"x\ny",null], "b":{"B":true}} `, strictjson.Rules{Fold: true, Depth: 2, Digits: 5, Exponent: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := &strictjson.Node{Kind: strictjson.Object, Start: 1, End: 42, Parts: []strictjson.Node{
		{Name: "a", Kind: strictjson.Array, Start: 6, End: 25, Parts: []strictjson.Node{
			{Kind: strictjson.Number, Text: "1.0e2", Start: 7, End: 12},
			{Kind: strictjson.String, Text: "x\ny", Start: 13, End: 19},
			{Kind: strictjson.Null, Text: "null", Start: 20, End: 24},
		}},
		{Name: "b", Kind: strictjson.Object, Start: 31, End: 41, Parts: []strictjson.Node{
			{Name: "B", Kind: strictjson.True, Text: "true", Start: 36, End: 40},
		}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Member("b").Member("B") == nil || got.Member("B") != nil || got.Member("a").Member("a") != nil {
		t.Error("members are not found by their names")
	}
}

func TestWhatTwoReadersUnderstandDifferently(t *testing.T) {
	many := ""
	for _, c := range "abcdefghijkl" {
		many += `"` + string(c) + `":1,`
	}
	rules := strictjson.Rules{Fold: true, Depth: 3, Digits: 10, Exponent: 308}
	for text, want := range map[string]strictjson.Error{
		``:                             {Reason: "early"},
		`{"a":1} x`:                    {Offset: 8, Reason: "x"},
		`{"a":{"b":1,"b":2}}`:          {Offset: 15, Pointer: "/a/b", Reason: `the key "b" is there twice`},
		`{"a":1,"\u0061":2}`:           {Offset: 15, Pointer: "/a", Reason: `the key "a" is there twice`},
		`{"key":1,"KEY":2}`:            {Offset: 14, Pointer: "/KEY", Reason: `the keys "key" and "KEY" differ only by case`},
		`{"k":1,"` + "\u212a" + `":2}`: {Offset: 12, Pointer: "/\u212a", Reason: "differ only by case"},
		`{` + many + `"L":1}`:          {Offset: 76, Pointer: "/L", Reason: "differ only by case"},
		`[[[[]]]]`:                     {Offset: 3, Pointer: "/0/0", Reason: "nested more than 3 deep"},
		`[1,{"x":12345678901}]`:        {Offset: 19, Pointer: "/1/x", Reason: "11 characters"},
		`[1e309]`:                      {Offset: 6, Pointer: "/0", Reason: "exponent of the number 1e309 is above 308"},
		`[1e-000309]`:                  {Reason: "exponent"},
		`[1E9999999]`:                  {Reason: "exponent"},
		`{"a":[1,]}`:                   {Offset: 7, Pointer: "/a"},
		`{"a":tru}`:                    {Pointer: "/a"},
		`{'a':1}`:                      {Offset: 1},
		`{"a":"` + "\n" + `"}`:         {Offset: 6, Pointer: "/a"},
	} {
		_, err := strictjson.Parse(text, rules)
		e, ok := errors.AsType[*strictjson.Error](err)
		if !ok || !strings.Contains(e.Reason, want.Reason) || want.Pointer != "" && e.Pointer != want.Pointer || want.Offset > 0 && e.Offset != want.Offset {
			t.Errorf("%s: %+v, not %+v", text, e, want)
		}
	}
	for _, text := range []string{`{"key":1,"KEY":2}`, `[1e309]`, `[[[[]]]]`, `12345678901`, "\"\xff\\ud800\""} {
		if _, err := strictjson.Parse(text, strictjson.Rules{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
