package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// texts are where the fuzzing starts: what is easily taken for JSON, and what is JSON and easily refused.
var texts = []string{
	`{}`, `[]`, `null`, `true`, `-0`, `1.50e+3`, `"a\u00e9\ud83d\ude00\ud800x"`, `{"a":1,"A":2}`, `{"a":1,"a":2}`, "{\"k\":1,\"\u212a\":2}",
	`{"a":{"b":[1,{"c":null}]}} x`, `{'a':1}`, `[1,]`, `{"a" 1}`, `"\x"`, "\"\x01\"", "\"\xff\"", `1e999999`, `01`, `.5`, `+1`, "\ufeff{}",
	`{"city":"Oslo","days":3,"units":"metric","detail":true}`, `{"value":1e2,"n":1.0,"list":[1,2.0]}`, " \t\r\n[ 1 , 2 ] ",
}

func FuzzStrict(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parseStrict(text, forReader)
		if err == nil {
			if !json.Valid(text) {
				t.Fatalf("%q was taken, and is no JSON", text)
			}
			v = whole(v)
			if want, _ := decodeTree(text); !reflect.DeepEqual(v, want) {
				t.Fatalf("%q became %#v, not %#v", text, v, want)
			}
		} else {
			refusedWithReason(t, text, err)
		}
		_, strictErr := parseStrict(text, forGo)
		switch {
		case err != nil && strictErr == nil:
			t.Fatalf("%q is taken where more is refused", text)
		case err == nil && (strictErr != nil) != hasAlike(v):
			t.Fatalf("%q: %v", text, strictErr)
		}
	})
}

// refusedWithReason fails unless an error names a place, and a reason that encoding/json does not see.
func refusedWithReason(t *testing.T, text []byte, err error) {
	t.Helper()
	var s *syntaxError
	if !errors.As(err, &s) || s.offset < 0 || s.offset > len(text) || s.msg == "" {
		t.Fatalf("%q: %#v", text, err)
	}
	ours := strings.Contains(s.msg, "is there twice") || strings.Contains(s.msg, "deep") || strings.Contains(s.msg, "exponent") ||
		strings.Contains(s.msg, "characters: at most")
	if json.Valid(text) && !ours {
		t.Fatalf("%q is JSON, and was refused: %v", text, err)
	}
}

func decodeTree(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// hasAlike says that an object in v has keys that differ only by case.
func hasAlike(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if hasAlike(e) {
				return true
			}
		}
	case map[string]any:
		for a, e := range v {
			if hasAlike(e) {
				return true
			}
			for b := range v {
				if a != b && strings.EqualFold(a, b) {
					return true
				}
			}
		}
	}
	return false
}

func FuzzFold(f *testing.F) {
	f.Add("k", "\u212a")
	f.Add("ſS", "ss")
	f.Add("a\xff", "A\xfe")
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = strings.ToValidUTF8(a, "\ufffd"), strings.ToValidUTF8(b, "\ufffd") // as the parser makes them
		if (fold(a) == fold(b)) != strings.EqualFold(a, b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}

// schemas are those that the quick validator is compared on: all that it knows, and some that it does not.
var schemas = []string{
	weather, `{}`, `{"type":"integer"}`, `{"type":["integer","null"],"minimum":-5,"maximum":10}`, `{"type":"number"}`, `{"minimum":1}`,
	`{"type":"string","enum":["a","b"]}`, `{"enum":["a"]}`, `{"enum":[1]}`, `{"required":["a"]}`, `{"items":{"type":"boolean"}}`,
	`{"properties":{"a":{"type":"null"},"b":{}},"additionalProperties":{"type":"number"},"title":"x"}`,
	`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"k":{"items":{"$ref":"#/$defs/n"}}},"additionalProperties":false}}}`,
	`{"properties":{"a":{"$ref":"#/$defs/n","minimum":3}},"$defs":{"n":{"type":"integer"}}}`,
	`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string"}]}},"items":false}`, `{"additionalProperties":true,"items":true}`,
	`{"type":"integer","minimum":1.5}`, `{"type":"array","items":{"type":"array"},"minItems":1}`, `{"$anchor":"a"}`, `{"type":[]}`,
}

func FuzzQuickAgreesWithTheFullValidator(f *testing.F) {
	var compiled []*Schema
	for _, s := range schemas {
		if c, err := CompileSchema(raw(s)); err == nil {
			compiled = append(compiled, c)
		}
	}
	for _, s := range texts {
		f.Add([]byte(s))
	}
	for _, s := range []string{`-5`, `10`, `11`, `0`, `"a"`, `["a",null,false]`, `{"a":null,"c":1.5}`, `{"k":[{"k":[]}]}`, `[[],[]]`, `{"a":3}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parseStrict(text, forReader)
		if err != nil {
			return
		}
		for i, s := range compiled {
			tree, _ := decodeTree(text)
			full := s.work.run(s.full, tree, len(text))
			if s.quick.fits(v) && full != nil {
				t.Errorf("schema %d takes %s quickly, and else says %v", i, text, full)
			}
			if err := s.ValidateResult(text); (err == nil) != (full == nil) {
				t.Errorf("schema %d on %s: %v, %v", i, text, err, full)
			}
		}
	})
}

func FuzzCompileSchema(f *testing.F) {
	for _, s := range append(schemas, `{"properties":{"a":{"$ref":"#"}}}`, `{"pattern":"("}`, `{"$id":"x","$ref":"x#/y"}`, `{"type":3}`) {
		f.Add([]byte(s), []byte(`{"a":[1,"x",null]}`))
	}
	f.Fuzz(func(t *testing.T, text, value []byte) {
		if in, err := givenInput(text); err == nil {
			again, err := givenInput(in)
			if err != nil || !bytes.Equal(again, in) {
				t.Errorf("%s became %s, then %s, %v", text, in, again, err)
			}
		}
		s, err := CompileSchema(text)
		if err != nil {
			return
		}
		if err := s.Validate(value); err != nil {
			var v *ValidationError
			if !errors.As(err, &v) || len(v.Faults) == 0 || err.Error() == "" || v.Faults[0].Rule == "" {
				t.Errorf("%#v", err)
			}
		}
	})
}

func FuzzCanonicalHash(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s), []byte(`{}`))
	}
	f.Add([]byte(`{"b":1,"a":[1.0]}`), []byte(`{"a":[1.0],"b":1}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ha, err := CanonicalHash(a)
		if err != nil {
			return
		}
		v, err := decodeTree(a)
		if err != nil {
			t.Fatal(err)
		}
		other, err := json.MarshalIndent(v, "", "\t") // sorted keys, other space, other escapes
		if err != nil {
			return // a number that Go does not write
		}
		if h, err := CanonicalHash(other); err != nil || h != ha {
			t.Errorf("%s and %s: %v", a, other, err)
		}
		hb, err := CanonicalHash(b)
		if err != nil {
			return
		}
		w, _ := decodeTree(b)
		if (ha == hb) != reflect.DeepEqual(v, w) {
			t.Errorf("%s and %s", a, b)
		}
	})
}

// fuzzed has all kinds of fields.
type fuzzed struct {
	City  string           `json:"city,omitempty"`
	Days  int8             `json:"days,omitempty" jsonschema:"default=2"`
	Value *uint64          `json:"value"`
	N     int              `json:"n,omitempty"`
	List  []int            `json:"list,omitempty"`
	M     map[string]inner `json:"m,omitempty"`
	Raw   json.RawMessage  `json:"raw,omitempty"`
	Any   any              `json:"any,omitempty"`
	Kids  []*fuzzed        `json:"kids,omitempty"`
}

// What reaches the function is what encoding/json would have read, in a stricter and in no other way.
func FuzzArguments(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"n":1e1,"list":[1.0,2],"m":{"a":{"x":-1.0e0}},"raw":1.0,"any":[1.0],"kids":[{"days":0,"value":18446744073709551615}]}`))
	var got *fuzzed
	made := make1(f, func(_ context.Context, in fuzzed) (Result[bool], error) { got = &in; return Done(true), nil })
	f.Fuzz(func(t *testing.T, args []byte) {
		got = nil
		_, err := made.Execute(context.Background(), Call{Arguments: args})
		var refused *Refusal
		if (err == nil) != (got != nil) || err != nil && !errors.As(err, &refused) {
			t.Fatalf("%q: %v", args, err)
		}
		if err != nil || isNull(args) {
			return
		}
		var want fuzzed
		d := json.NewDecoder(bytes.NewReader(args))
		d.UseNumber()
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			return // a whole number in another form
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: text was ignored", args)
		}
		if got.City != want.City || got.N != want.N || !reflect.DeepEqual(got.Value, want.Value) || !bytes.Equal(got.Raw, want.Raw) ||
			!reflect.DeepEqual(got.Any, want.Any) || !reflect.DeepEqual(got.M, want.M) || len(got.Kids) != len(want.Kids) {
			t.Errorf("%q arrived as %+v, not %+v", args, got, want)
		}
	})
}
