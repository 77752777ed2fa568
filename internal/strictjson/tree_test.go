package strictjson_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

func TestParse(t *testing.T) {
	const text = ` {"a":[1.0e2,"x\ny",null], "b":{"B":true}} `
	got, err := strictjson.Parse(text,
		strictjson.Rules{Fold: true, Depth: 2, Digits: 5, Exponent: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := strictjson.Doc{Text: text,
		Root: strictjson.Object{End: 41, Members: []strictjson.Member{
			{Name: "a",
				Value: strictjson.Array{strictjson.Number{Text: "1.0e2", Start: 7},
					strictjson.String{Text: "x\ny", Start: 13}, nil}},
			{Name: "b",
				Value: strictjson.Object{End: 40,
					Members: []strictjson.Member{{Name: "B", Value: true}}}},
		}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestWhatTwoReadersUnderstandDifferently(t *testing.T) {
	many := ""
	for _, c := range "abcdefghijkl" {
		many += `"` + string(c) + `":1,`
	}
	rules := strictjson.Rules{Fold: true, Depth: 3, Digits: 10, Exponent: 308}
	for text, want := range map[string]strictjson.SyntaxError{
		`{"a":1} x`: {8, nil,
			`there is text after the end of the JSON value: "x"`},
		`{"a":{"b":1,"b":2}}`: {12, []string{"a"}, `the key "b" is there twice`},
		`{"a":1,"\u0061":2}`:  {7, nil, `the key "a" is there twice`},
		`{"key":1,"KEY":2}`:   {9, nil, `the keys "key" and "KEY" differ only by case`},
		`{"k":1,"` + "\u212a" +
			`":2}`: {7, nil, "the keys \"k\" and \"\u212a\" differ only by case"},
		`{` + many + `"L":1}`: {73, nil, `the keys "l" and "L" differ only by case`},
		`[[[[]]]]`:            {3, []string{"0", "0", "0"}, "it is nested more than 3 deep"},
		`[1,{"x":12345678901}]`: {8, []string{"1", "x"},
			"a number has 11 characters: at most 10 are taken"},
		`[1e309]`:     {1, []string{"0"}, "the exponent of the number 1e309 is above 308"},
		`[1e-000309]`: {1, []string{"0"}, "the exponent of the number 1e-000309 is above 308"},
		`[1E9999999]`: {1, []string{"0"}, "the exponent of the number 1E9999999 is above 308"},
	} {
		_, err := strictjson.Parse(text, rules)
		got, _ := errors.AsType[*strictjson.SyntaxError](err)
		if d := cmp.Diff(&want, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
	for _, text := range []string{`{"key":1,"KEY":2}`, `[1e309]`, `[[[[]]]]`, `12345678901`,
		"\"\xff\\ud800\""} {
		if _, err := strictjson.Parse(text, strictjson.Rules{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What a model reads has to name the place and what is wrong there.
func TestWhatIsNoJSONIsToldInWords(t *testing.T) {
	for text, want := range map[string]string{
		``:              "it is empty: a JSON value is expected (at byte 0)",
		" \n":           "it is empty: a JSON value is expected (at byte 2)",
		`{"a":[1,]}`:    "/a/1: a JSON value is expected where ']' stands (at byte 8)",
		`{"a":[1 2]}`:   "/a: ',' or ']' is expected where '2' stands (at byte 8)",
		`{"a":[1`:       "/a: ',' or ']' is expected where the text ends (at byte 7)",
		`{"a":tru}`:     "/a: a JSON value is expected where 't' stands (at byte 5)",
		`{"a":nulls}`:   "',' or '}' is expected where 's' stands (at byte 9)",
		`{'a':1}`:       `a key in double quotes is expected where '\'' stands (at byte 1)`,
		`{1:1}`:         `a key in double quotes is expected where '1' stands (at byte 1)`,
		`{"a" 1}`:       `':' is expected after the key "a" where '1' stands (at byte 5)`,
		`{"a":}`:        "/a: a JSON value is expected where '}' stands (at byte 5)",
		`{"a":1,}`:      "a key in double quotes is expected where '}' stands (at byte 7)",
		`{"a":1;"b":1}`: "',' or '}' is expected where ';' stands (at byte 6)",
		`{"a":1 "b":1}`: "',' or '}' is expected where '\"' stands (at byte 7)",
		`{"a":{}]`:      "',' or '}' is expected where ']' stands (at byte 7)",
		`{`:             "a key in double quotes is expected where the text ends (at byte 1)",
		`{"a`:           "a string begins here and does not end (at byte 1)",
		`["a\u12"]`:     "/0: a string holds an escape that is cut off (at byte 3)",
		`["\"\x"]`:      `/0: a string holds the unknown escape \x (at byte 4)`,
		"[\"\\\\\n\"]":  `/0: a string holds the control character '\n' unescaped (at byte 4)`,
		`["a\`:          "/0: a string begins here and does not end (at byte 1)",
		`-`:             "a digit is expected where the text ends (at byte 1)",
		`[-x]`:          "/0: a digit is expected where 'x' stands (at byte 2)",
		`1.`:            "a digit is expected where the text ends (at byte 2)",
		`[1.5e]`:        "/0: a digit is expected where ']' stands (at byte 5)",
		`[1e+]`:         "/0: a digit is expected where ']' stands (at byte 4)",
		`01`:            `there is text after the end of the JSON value: "1" (at byte 1)`,
		`+1`:            "a JSON value is expected where '+' stands (at byte 0)",
		`.5`:            "a JSON value is expected where '.' stands (at byte 0)",
		"\ufeff{}":      "a JSON value is expected where a byte order mark stands (at byte 0)",
		"\xff":          "a JSON value is expected where '\ufffd' stands (at byte 0)",
	} {
		_, err := strictjson.Parse(text, strictjson.Strict(true))
		e, ok := errors.AsType[*strictjson.SyntaxError](err)
		if !ok {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := e.Error()
		if e.Path != nil {
			got = "/" + strings.Join(e.Path, "/") + ": " + got
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestEdit(t *testing.T) {
	const text = `{"a":"x\"y","n":1.0,"b":[]}`
	d, err := strictjson.Parse(text, strictjson.Strict(true))
	if err != nil {
		t.Fatal(err)
	}
	members := d.Root.(strictjson.Object).Members
	e := strictjson.NewEdit(text)
	if got := e.Result(); got != text {
		t.Error(got)
	}
	e.ReplaceString(members[0].Value.(strictjson.String), `[1]`)
	n := members[1].Value.(strictjson.Number)
	e.Replace(n.Start, n.Start+len(n.Text), "1")
	end := d.Root.(strictjson.Object).End
	e.Replace(end, end, `,"c":2`)
	if got := e.Result(); got != `{"a":[1],"n":1,"b":[],"c":2}` {
		t.Error(got)
	}
	if names := slices.Collect(func(yield func(string) bool) {
		for _, m := range members {
			yield(m.Name)
		}
	}); !slices.Equal(names, []string{"a", "n", "b"}) {
		t.Error(names)
	}
}
