package anthropic

import (
	"bytes"
	"encoding/json"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"
)

// FuzzEncode puts any text, and any JSON as a native form, into a request: the
// text comes out as it was, the JSON byte for byte.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "a", `<b>&amp;</b>`, `\u003c`, `\\u003c`, `\`, `"\"`, "\u2028\xff", `{"a":"<","b":"\u003c\\u0026"}`, `["\\\u0026",1.0]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		params := sdk.MessageNewParams{Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(s))}}
		raw := json.Valid([]byte(s))
		if raw {
			params.Messages = append(params.Messages, sdk.NewUserMessage(param.Override[sdk.ContentBlockParamUnion](json.RawMessage(s))))
		}
		body, err := encode(params)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Messages []struct{ Content []json.RawMessage }
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		var text struct{ Text string }
		if err := json.Unmarshal(got.Messages[0].Content[0], &text); err != nil {
			t.Fatal(err)
		}
		if text.Text != string([]rune(s)) { // what is no UTF-8 can't be sent
			t.Errorf("%q came out as %q", s, text.Text)
		}
		if !raw {
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(s)); err != nil {
			t.Fatal(err)
		}
		// Where the API itself escaped <, > or &, the escape is undone: that is
		// another text, and the same value.
		escaped := bytes.Contains(compact.Bytes(), []byte(`\u00`))
		if !escaped && !bytes.Equal(got.Messages[1].Content[0], compact.Bytes()) {
			t.Errorf("%s came out as %s", compact.Bytes(), got.Messages[1].Content[0])
		}
	})
}
