package modeltext_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fermata-ai/fermata/internal/modeltext"
)

func TestModelsReadWhatMarshalEscapes(t *testing.T) {
	for in, want := range map[string]string{
		`{"html":"\u003cb\u003e \u0026amp; \u2028\u2029"}`: "{\"html\":\"<b> &amp; \u2028\u2029\"}",
		`{"\u003Ck":[1.0, "\u003E"]}`:                      `{"<k":[1.0, ">"]}`,
		`"\\u003c"`:                                        `"\\u003c"`,
		`"\\\u003c"`:                                       `"\\<"`,
		`"\\\\u003c\u003c"`:                                `"\\\\u003c<"`,
		`"\u0022\u005c\u0000\n\u00e9\ud83d\ude00\""`:       `"\u0022\u005c\u0000\n\u00e9\ud83d\ude00\""`,
		`"\ud83d\u003c"`:                                   `"\ud83d<"`,
		`{"a":1}`:                                          `{"a":1}`,
		`"\u003`:                                           `"\u003`,
		`"\`:                                               `"\`,
		``:                                                 ``,
	} {
		before := json.RawMessage(in)
		if got := modeltext.PlainJSON(before); string(got) != want {
			t.Errorf("%s is told as %s, not %s", in, got, want)
		}
		if string(before) != in {
			t.Errorf("%s was changed into %s", in, before)
		}
	}
	raw := json.RawMessage(`{"a":"\n"}`)
	if got := modeltext.PlainJSON(raw); &got[0] != &raw[0] {
		t.Error("what has no such escape is copied")
	}
}

func FuzzPlainJSONIsTheSameValue(f *testing.F) {
	for _, s := range []string{`"\\u003c\u003c"`, `{"\u0026":"\\\u2028"}`, `["\ud83d\u003c"]`, `"\u003`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		plain := modeltext.PlainJSON(raw)
		if !json.Valid(raw) {
			return
		}
		var was, is any
		if err := json.Unmarshal(raw, &was); err != nil {
			return
		}
		if err := json.Unmarshal(plain, &is); err != nil || !reflect.DeepEqual(was, is) {
			t.Errorf("%s became %s: %v", raw, plain, err)
		}
		if again := modeltext.PlainJSON(plain); !bytes.Equal(again, plain) {
			t.Errorf("%s became %s, and then %s", raw, plain, again)
		}
	})
}
