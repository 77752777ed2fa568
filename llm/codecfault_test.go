package llm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCorruptMessagesAreRefused(t *testing.T) {
	for in, want := range map[string]string{
		``:                                      "at byte 0, not '{'",
		`[]`:                                    "at byte 0, not '{'",
		`{"role":1}`:                            "role is no string",
		`{"parts":1}`:                           "not '['",
		`{"role":"user","parts":[]} {}`:         "at byte 27, a second JSON value follows the first",
		`{"parts":["x"]}`:                       "parts[0]: at byte 10, not '{'",
		`{"parts":[{"text":"x"}]}`:              "parts[0]: no type",
		`{"parts":[{"type":7}]}`:                "parts[0]: no type",
		`{"parts":[{"type":null}]}`:             "parts[0]: no type",
		`{"parts":[{"type":"text","text":{}}]}`: "parts[0]: text is no string",
		`{"parts":[{"type":"text"},{"type":"text","text":7}]}`: "parts[1]: text is no string",
		`{"parts":[{"type":"tool_result","error":"false"}]}`:   "parts[0]: error is neither true nor false",
		`{"parts":[{"type":"tool_call","id":7}]}`:              "parts[0]: id is no string",
		`{"parts":[{"type":"opaque"}]}`:                        "parts[0]: opaque without native",
		`{"parts":[{"type":"text","native":[]}]}`:              "parts[0]: native is no object",
		`{"parts":[{"type":"text","native":{"provider":1}}]}`:  "parts[0]: native.provider is no string",
		`{"parts":[{"type":"media","data":"?"}]}`:              "parts[0]: data: illegal base64",
		`{"parts":[{"type":"text","text":"x}]}`:                "parts[0]: at byte 37, the text ends inside the string that begins at byte 32",
		`{"role":x}`:                                           "at byte 8, x is no JSON value",
		`{"role":"u",}`:                                        "at byte 12, a comma stands before the closing }",
		`{"x":01}`:                                             "at byte 6, '1' stands where a comma or } is expected",
	} {
		m := Message{Role: "as it was"}
		err := m.UnmarshalJSON([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "llm: message: ") {
			t.Errorf("%s: %v; want %q", in, err, want)
		}
		if m.Role != "as it was" {
			t.Errorf("%s: changed the message", in)
		}
	}
}

func TestWhatHasNoFormIsAnError(t *testing.T) {
	for want, m := range map[string]Message{
		"parts[0]: <nil> is no part":     {Parts: []Part{nil}},
		"parts[1]: *llm.Text is no part": {Parts: []Part{Text{}, &Text{}}},
		"parts[0]: arguments: at byte 6, the text ends where a comma or } is expected": {Parts: []Part{ToolCall{Arguments: raw(`{"p":1`)}}},
		"parts[0]: output: at byte 2, a second JSON value":                             {Parts: []Part{ToolResult{Output: raw(`1 2`)}}},
		"parts[0]: data: at byte 0, NaN is no JSON value":                              {Parts: []Part{Opaque{Native{Data: raw(`NaN,`)}}}},
		`parts[0]: unknown part "a": its Raw is of another type`:                       {Parts: []Part{Unknown{"a", raw(`{"type":"b"}`)}}},
		`parts[0]: unknown part "text": its Raw is of another type`:                    {Parts: []Part{Unknown{"text", raw(`{"type":"text"}`)}}},
		`parts[0]: unknown part "a": no type`:                                          {Parts: []Part{Unknown{"a", raw(`{}`)}}},
		`parts[0]: unknown part "a": at byte 12, text follows`:                         {Parts: []Part{Unknown{"a", raw(`{"type":"a"}x`)}}},
		"llm: at byte 5, the text ends where a value is expected":                      {Extra: raw(`{"a":`)},
		`the extra members include "role"`:                                             {Extra: raw(`{"r\u006fle":"user"}`)},
		"llm: at byte 0, not '{'":                                                      {Extra: raw(`[]`)},
		"text follows the JSON value":                                                  {Extra: raw(`{"a":1}x`)},
	} {
		got, err := m.AppendJSON([]byte("before"))
		if err == nil || !strings.Contains(err.Error(), want) || string(got) != "before" {
			t.Errorf("%q: %v; want %q", got, err, want)
		}
	}
}

func TestDeepestValueThatEncodesDecodes(t *testing.T) {
	deep := func(n int) json.RawMessage { return raw(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	call := Message{Parts: []Part{Opaque{Native{Data: deep(maxDepth - 4)}}}}
	if got := decode(t, encode(t, call)); !cmp.Equal(call, got) {
		t.Error("did not survive")
	}
	if _, err := (Message{Parts: []Part{Opaque{Native{Data: deep(maxDepth - 3)}}}}).AppendJSON(nil); err == nil {
		t.Error("nesting that no reader takes was encoded")
	}
	objects := strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth)
	if only([]byte(objects), 0) != nil || only([]byte(`{"a":`+objects+"}"), 0) == nil {
		t.Error("objects are not bounded as arrays are")
	}
	if _, err := Arguments(deep(maxDepth)); err == nil {
		t.Error("arguments that no message takes were accepted")
	}
}
