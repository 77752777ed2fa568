package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
)

// texts are where the fuzzing starts: what is easily taken for JSON, and what
// is JSON and easily refused.
var texts = []string{
	`{}`, `[]`, `null`, `true`, `-0`, `1.50e+3`, `"a\u00e9\ud83d\ude00\ud800x"`, `{"a":1,"A":2}`,
	`{"a":1,"a":2}`, "{\"k\":1,\"\u212a\":2}",
	`{"a":{"b":[1,{"c":null}]}} x`, `{'a':1}`, `[1,]`, `{"a" 1}`, `"\x"`, "\"\x01\"", "\"\xff\"",
	`1e999999`, `01`, `.5`, `+1`, "\ufeff{}",
	`{"city":"Oslo","days":3,"units":"metric","detail":true}`,
	`{"value":1e2,"n":1.0,"list":[1,2.0]}`, " \t\r\n[ 1 , 2 ] ", strings.Repeat("[", 1001),
}

// What is taken is JSON, and the tree is encoding/json's; what is refused has a
// place and a reason.
func FuzzParse(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text, Strict(false))
		if err == nil {
			if !json.Valid(text) {
				t.Fatalf("%q was taken, and is no JSON", text)
			}
			if want, _ := decodeTree(text); !reflect.DeepEqual(Plain(d.Root), want) {
				t.Fatalf("%q became %#v, not %#v", text, Plain(d.Root), want)
			}
		} else {
			refusedWithReason(t, text, err)
		}
		_, strictErr := Parse(text, Strict(true))
		switch {
		case err != nil && strictErr == nil:
			t.Fatalf("%q is taken where more is refused", text)
		case err == nil && (strictErr != nil) != hasAlike(Plain(d.Root)):
			t.Fatalf("%q: %v", text, strictErr)
		}
	})
}

// refusedWithReason fails unless an error names a place, and a reason that
// encoding/json does not see.
func refusedWithReason(t *testing.T, text []byte, err error) {
	t.Helper()
	s, ok := errors.AsType[*SyntaxError](err)
	if !ok || s.Offset < 0 || s.Offset > len(text) || s.Reason == "" ||
		strings.Contains(s.Reason, "not as JSON has it") {
		t.Fatalf("%q: %#v", text, err)
	}
	ours := strings.Contains(s.Reason, "is there twice") || strings.Contains(s.Reason, "deep") ||
		strings.Contains(s.Reason, "exponent") ||
		strings.Contains(s.Reason, "characters: at most")
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

// hasAlike reports whether an object in v has names that differ only by case.
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
		// As the parser makes them.
		a, b = strings.ToValidUTF8(a, "\ufffd"), strings.ToValidUTF8(b, "\ufffd")
		if (fold(a) == fold(b)) != strings.EqualFold(a, b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}

func TestHashIsEqualityOfJSON(t *testing.T) {
	hash := func(s string) string {
		t.Helper()
		h, err := Hash(json.RawMessage(s))
		if err != nil || len(h) != 24 {
			t.Fatal(h, err)
		}
		return h
	}
	for a, b := range map[string]string{
		`{"a":1,"b":[true,null]}`: " {\"b\" : [ true,\nnull ], \"a\" :1 } ",
		`"A\n/é\ud83d\ude00"`:     `"\u0041\u000a\/` + "é😀" + `"`,
		`{"\u0061":""}`:           `{"a":""}`,
		`[]`:                      `[ ]`,
	} {
		if hash(a) != hash(b) {
			t.Errorf("%s and %s differ", a, b)
		}
	}
	seen := map[string]string{}
	for _, s := range []string{
		`1`, `1.0`, `1e0`, `1E0`, `-1`, `9007199254740992`, `9007199254740993`, `"1"`, `""`, `null`,
		`true`, `false`, `"true"`, `"null"`, `0`, `-0`,
		`[]`, `{}`, `[[]]`, `[{}]`, `{"a":[]}`, `{"a":{}}`, `{"a":null}`, `["a"]`, `["a","b"]`,
		`["a,b"]`, `["ab"]`, `["b","a"]`, `[["a"],"b"]`, `[["a","b"]]`,
		`{"a":"b"}`, `{"b":"a"}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":{"b":2}}`, `{"A":1}`,
		`{"a":1}`, `"1n1"`, `[1,1]`, `[11]`,
	} {
		h := hash(s)
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", s, other)
		}
		seen[h] = s
	}
	for _, s := range []string{``, `{`, `1 2`, `{"a":1,"a":1}`} {
		if h, err := Hash(json.RawMessage(s)); err == nil || h != "" {
			t.Errorf("%s has the hash %s", s, h)
		}
	}
}

func FuzzHash(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s), []byte(`{}`))
	}
	f.Add([]byte(`{"b":1,"a":[1.0]}`), []byte(`{"a":[1.0],"b":1}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ha, err := Hash(a)
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
		if h, err := Hash(other); err != nil || h != ha {
			t.Errorf("%s and %s: %v", a, other, err)
		}
		hb, err := Hash(b)
		if err != nil {
			return
		}
		w, _ := decodeTree(b)
		if (ha == hb) != reflect.DeepEqual(v, w) {
			t.Errorf("%s and %s", a, b)
		}
	})
}

func TestLargeValuesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(before chan struct{}) { turns = before }(turns)
		turns = make(chan struct{}, 1)
		large := json.RawMessage("[1" + strings.Repeat(",1", largeValue) + "]")
		done := Turn(largeValue)
		hashed := make(chan error, 1)
		go func() { _, err := Hash(large); hashed <- err }()
		synctest.Wait()
		if len(hashed) > 0 {
			t.Error("a large value didn't wait for its turn")
		}
		if _, err := Hash(json.RawMessage(`[1]`)); err != nil {
			t.Error(err)
		}
		done()
		if err := <-hashed; err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := []byte(`{"city":"Oslo","days":3,"units":"metric","detail":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text, Strict(true)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodingJSONTree is encoding/json on the same tree, for comparison.
func BenchmarkEncodingJSONTree(b *testing.B) {
	text := []byte(`{"city":"Oslo","days":3,"units":"metric","detail":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeTree(text); err != nil {
			b.Fatal(err)
		}
	}
}
