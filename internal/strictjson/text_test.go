package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

func TestStrings(t *testing.T) {
	for s, want := range map[string]string{
		"":                   `""`,
		"a/<&>é\u2028\x7f":   `"a/<&>é` + "\u2028\x7f" + `"`,
		"\"\\\n\r\t\b\f\x01": `"\"\\\n\r\t\b\f\u0001"`,
		"a\xffb":             "\"a\ufffdb\"",
	} {
		if got := strictjson.AppendString(nil, s); string(got) != want {
			t.Errorf("%q is written as %s, not %s", s, got, want)
		}
		if got := strictjson.Unquote([]byte(want)); got != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("%s says %q", want, got)
		}
	}
}

func TestEscapesOfRunes(t *testing.T) {
	for text, want := range map[string]struct {
		r    rune
		size int
	}{
		`\u0041`:         {'A', 6},
		`\u00eF1`:        {'ï', 6},
		`\ud83d\ude00x`:  {'😀', 12},
		`\ud83d\u0041`:   {utf8.RuneError, 6},
		`\ude00\ud83d`:   {utf8.RuneError, 6},
		`\ud83d`:         {utf8.RuneError, 6},
		`\ud83d\ude0`:    {utf8.RuneError, 6},
		`\u004`:          {0, 0},
		`\u004g`:         {0, 0},
		`\n0041`:         {0, 0},
		``:               {0, 0},
		`u0041\u0041`:    {0, 0},
		`\u0000`:         {0, 6},
		`\uffff\u0041`:   {'\uffff', 6},
		`\U0041`:         {0, 0},
		`\ud83d\\ude00`:  {utf8.RuneError, 6},
		`\ud83dx\ude00x`: {utf8.RuneError, 6},
	} {
		if r, size := strictjson.Rune([]byte(text)); r != want.r || size != want.size {
			t.Errorf("%s is %q of %d bytes", text, r, size)
		}
	}
}

func TestCompact(t *testing.T) {
	got, err := strictjson.Compact(json.RawMessage(oddRaw))
	if want := `{"a":1.0e2,"a":"\u003c\/\ud800","b":-0}`; err != nil || string(got) != want {
		t.Errorf("it is %s, %v", got, err)
	}
}

// What the package takes for JSON, encoding/json does, and the other way round.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		oddRaw, `[1,-0.5e+7,"\u00zz"]`, `{"a":}`, "\"\x00\"", `01`, `"\`, "\"\xff\"", `{"a":1}{}`,
		strings.Repeat("[", 10001),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := strictjson.Check([]byte(s))
		if (err == nil) != json.Valid([]byte(s)) {
			t.Fatalf("%q: %v", s, err)
		}
		doc, perr := strictjson.Parse(s, strictjson.Rules{})
		if err != nil && perr == nil {
			t.Errorf("%q is parsed, and no JSON: %v", s, err)
		}
		if perr == nil {
			checkPlaces(t, s, doc.Root)
		}
		if err != nil {
			return
		}
		if s = strings.TrimSpace(s); s[0] == '"' {
			var want string
			if err := json.Unmarshal([]byte(s), &want); err != nil {
				t.Fatal(err)
			}
			if got := strictjson.Unquote([]byte(s)); got != want {
				t.Errorf("%s says %q, not %q", s, got, want)
			}
			if got := strictjson.Unquote(strictjson.AppendString(nil, want)); got != want {
				t.Errorf("%q comes back as %q", want, got)
			}
		}
	})
}

// checkPlaces checks that the parts of a tree stand where they say.
func checkPlaces(t *testing.T, text string, v any) {
	t.Helper()
	switch v := v.(type) {
	case strictjson.String:
		if text[v.Start] != '"' {
			t.Errorf("a string stands at %q", text[v.Start:])
		}
	case strictjson.Number:
		if !strings.HasPrefix(text[v.Start:], v.Text) {
			t.Errorf("the number %s stands at %q", v.Text, text[v.Start:])
		}
	case strictjson.Array:
		for _, e := range v {
			checkPlaces(t, text, e)
		}
	case strictjson.Object:
		if text[v.End] != '}' {
			t.Errorf("an object ends at %q", text[v.End:])
		}
		for _, m := range v.Members {
			checkPlaces(t, text, m.Value)
		}
	}
}
