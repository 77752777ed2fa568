package modeltext

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestCleanString(t *testing.T) {
	for in, want := range map[string]string{
		"":             "",
		"plain é水𝄐":    "plain é水𝄐",
		`\ud800`:       `\ud800`, // six characters, not an escape
		"\uFFFD":       "\uFFFD",
		"a\xffb":       "a\uFFFDb",
		"\xe6\xb0":     "\uFFFD\uFFFD",
		"\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD", // a surrogate, encoded as if it were a character
	} {
		if got := CleanString(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestCleanJSON(t *testing.T) {
	for in, want := range map[string]string{
		``:                                   ``,
		`{"n": 9007199254740993, "f":1.0e3}`: `{"n": 9007199254740993, "f":1.0e3}`,
		`"\u003c\/\n"`:                       `"\u003c\/\n"`,
		`"\ud834\udd10"`:                     `"\ud834\udd10"`, // a pair is a character
		`"\ud800"`:                           `"\ufffd"`,
		`"\uD800x"`:                          `"\ufffdx"`,
		`"\udd10\ud834"`:                     `"\ufffd\ufffd"`, // a pair the wrong way round
		`"\ud800\ud834\udd10"`:               `"\ufffd\ud834\udd10"`,
		`"\ud834\u0041"`:                     `"\ufffd\u0041"`,
		`"\\ud800"`:                          `"\\ud800"`, // an escaped backslash, then text
		`"\\\ud800"`:                         `"\\\ufffd"`,
		`"\ud834\\udd10"`:                    `"\ufffd\\udd10"`,
		`{"\udfff":{"k":["\ud800"]}}`:        `{"\ufffd":{"k":["\ufffd"]}}`,
		"\"a\xffb\"":                         "\"a\uFFFDb\"",
		"\xff":                               "\uFFFD",
		`"\ufffd"`:                           `"\ufffd"`,
		"\"\uFFFD\"":                         "\"\uFFFD\"",
		`\ud8`:                               `\ud8`, // no JSON: no harm
		`\`:                                  `\`,
		"\\\xff":                             "\\\uFFFD",
	} {
		if got := CleanJSON(json.RawMessage(in)); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestCleanJSONTakesNoMemoryWhenClean(t *testing.T) {
	for _, in := range []json.RawMessage{json.RawMessage(`{"city":"Oslo"}`), json.RawMessage(`{"city":"Malmö \ud834\udd10 \\ud800\n"}`)} {
		if n := testing.AllocsPerRun(100, func() { in = CleanJSON(in) }); n > 0 {
			t.Errorf("%s: %v allocations", in, n)
		}
	}
}

// cleanJSONHolds is what CleanJSON promises of JSON text.
func cleanJSONHolds(t interface{ Fatalf(string, ...any) }, in json.RawMessage) {
	before := string(in)
	got := CleanJSON(in)
	if string(in) != before {
		t.Fatalf("%q was changed in place", before)
	}
	if again := CleanJSON(got); string(again) != string(got) || !utf8.Valid(got) {
		t.Fatalf("%q: %q isn't clean", before, got)
	}
	if !json.Valid(in) {
		return
	}
	// encoding/json replaces the same things, while decoding.
	var want, have any
	if json.Unmarshal(in, &want) != nil {
		return // a number out of range
	}
	if err := json.Unmarshal(got, &have); err != nil || !cmp.Equal(want, have) {
		t.Fatalf("%q: %q means something else: %v", before, got, err)
	}
}

func FuzzCleanJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) { cleanJSONHolds(t, b) })
}
