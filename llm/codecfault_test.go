package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCorruptMessagesAreRefused(t *testing.T) {
	for in, want := range map[string]string{
		``:                                      "the text ends too early (at byte 0)",
		`[]`:                                    "a [ stands where a { is expected (at byte 0)",
		`{}`:                                    "role is missing",
		`{"role":"user"}`:                       "parts is missing",
		`{"role":1}`:                            "role is no string",
		`{"role":null}`:                         "role is no string",
		`{"parts":1}`:                           "a number stands where a [ is expected (at byte 8, in /parts)",
		`{"parts":null}`:                        "a null stands where a [ is expected",
		`{"role":"a","role":"a"}`:               `the member "role" is there twice`,
		`{"Role":"user"}`:                       `the member "Role" is "role" in another case`,
		`{"role":"user","parts":[]} {}`:         "(at byte 27)",
		`{"parts":["x"]}`:                       "a string stands where a { is expected (at byte 10, in /parts)",
		`{"parts":[{"text":"x"}]}`:              "the part has no type (at byte 22, in /parts/0)",
		`{"parts":[{"type":7}]}`:                "the part has no type",
		`{"parts":[{"type":null}]}`:             "the part has no type",
		`{"parts":[{"type":"text"}]}`:           "text is missing (at byte 25, in /parts/0)",
		`{"parts":[{"type":"text","text":{}}]}`: "text is no string",
		`{"parts":[{"type":"text","text":null}]}`:                                "text is no string",
		`{"parts":[{"type":"text","text":"a","text":"a"}]}`:                      `the member "text" is there twice`,
		`{"parts":[{"type":"text","type":"text","text":"a"}]}`:                   `the member "type" is there twice`,
		`{"parts":[{"type":"text","Type":"text","text":"a"}]}`:                   `the member "Type" is "type" in another case`,
		`{"parts":[{"type":"tool_call","ID":"a"}]}`:                              `the member "ID" is "id" in another case`,
		`{"parts":[{"type":"text","text":""},{"type":"text","text":7}]}`:         "text is no string (at byte 60, in /parts/1)",
		`{"parts":[{"type":"tool_result","error":"false"}]}`:                     "error is neither true nor false",
		`{"parts":[{"type":"tool_result","error":null}]}`:                        "error is neither true nor false",
		`{"parts":[{"type":"tool_result","media":[{"type":"text","text":""}]}]}`: "media: it is of another type",
		`{"parts":[{"type":"tool_result","media":[{"type":"media","name":1}]}]}`: "media: name is no string",
		`{"parts":[{"type":"tool_call","id":7}]}`:                                "id is no string",
		`{"parts":[{"type":"opaque"}]}`:                                          "opaque without native",
		`{"parts":[{"type":"text","text":"","native":null}]}`:                    "native: a value is null",
		`{"parts":[{"type":"text","text":"","native":[]}]}`:                      "native: a [ stands where a { is expected",
		`{"parts":[{"type":"text","text":"","native":{}}]}`:                      `native: the member "provider" is missing`,
		`{"parts":[{"type":"text","text":"","native":{"provider":1}}]}`:          "native: ",
		`{"parts":[{"type":"media","data":"?"}]}`:                                "data: illegal base64",
		`{"parts":[{"type":"text","text":"x}]}`:                                  "the text ends too early (at byte 37, in /parts/0/text)",
		`{"role":x}`:                                                             "(at byte 8, in /role)",
		`{"role":"u",}`:                                                          "(at byte 11)",
		`{"x":01}`:                                                               "(at byte 6)",
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
		"parts[0]: <nil> is no part":                                {Parts: []Part{nil}},
		"parts[1]: *llm.Text is no part":                            {Parts: []Part{Text{}, &Text{}}},
		"parts[0]: arguments: the text ends too early (at byte 6)":  {Parts: []Part{ToolCall{Arguments: raw(`{"p":1`)}}},
		"parts[0]: output: invalid":                                 {Parts: []Part{ToolResult{Output: raw(`1 2`)}}},
		"parts[0]: data: invalid":                                   {Parts: []Part{Opaque{Native{Data: raw(`NaN,`)}}}},
		`parts[0]: unknown part "a": its Raw is of another type`:    {Parts: []Part{Unknown{"a", raw(`{"type":"b"}`)}}},
		`parts[0]: unknown part "text": its Raw is of another type`: {Parts: []Part{Unknown{"text", raw(`{"type":"text","text":""}`)}}},
		`parts[0]: unknown part "a": the part has no type`:          {Parts: []Part{Unknown{"a", raw(`{}`)}}},
		`parts[0]: unknown part "a": invalid`:                       {Parts: []Part{Unknown{"a", raw(`{"type":"a"}x`)}}},
		"llm: the text ends too early (at byte 5, in /a)":           {Extra: raw(`{"a":`)},
		`the extra members include "role"`:                          {Extra: raw(`{"r\u006fle":"user"}`)},
		`the extra members include "Parts", and "parts" is`:         {Extra: raw(`{"Parts":1}`)},
		"llm: a [ stands where a { is expected":                     {Extra: raw(`[]`)},
		"llm: invalid character 'x'":                                {Extra: raw(`{"a":1}x`)},
	} {
		got, err := m.AppendJSON([]byte("before"))
		if err == nil || !strings.Contains(err.Error(), want) || string(got) != "before" {
			t.Errorf("%q: %v; want %q", got, err, want)
		}
	}
}

const maxDepth = 10000 // as any reader of JSON takes it

func TestDeepestValueThatEncodesDecodes(t *testing.T) {
	deep := func(n int) json.RawMessage { return raw(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	call := Message{Parts: []Part{Opaque{Native{Data: deep(maxDepth - 4)}}}}
	if got := decode(t, encode(t, call)); !cmp.Equal(call, got) {
		t.Error("did not survive")
	}
	if _, err := (Message{Parts: []Part{Opaque{Native{Data: deep(maxDepth - 3)}}}}).AppendJSON(nil); err == nil {
		t.Error("nesting that no reader takes was encoded")
	}
	objects := func(n int) json.RawMessage { return raw(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)) }
	for n, ok := range map[int]bool{maxDepth - 4: true, maxDepth - 3: false} {
		if _, err := (Message{Parts: []Part{Opaque{Native{Data: objects(n)}}}}).AppendJSON(nil); (err == nil) != ok {
			t.Errorf("objects are not bounded as arrays are: %v", err)
		}
	}
	if _, err := Arguments(deep(maxDepth)); err == nil {
		t.Error("arguments that no message takes were accepted")
	}
}

// What is no part of this version's own is kept as it came: equal names too.
func TestEqualExtraMembersAreKept(t *testing.T) {
	in := Message{Role: RoleUser, Extra: raw(`{"a":1,"a":2,"\ud800":1,"\udfff":1}`), Parts: []Part{}}
	text, err := in.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	var out Message
	if err := out.UnmarshalJSON(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if again, err := out.AppendJSON(nil); err != nil || string(again) != string(text) {
		t.Errorf("%s, and again %s, %v", text, again, err)
	}
}

// An unknown part of which there is only a type is written, whatever that says.
func TestUnknownPartOfATypeAlone(t *testing.T) {
	got, err := Unknown{Type: "la\xffter"}.MarshalJSON()
	if err != nil || string(got) != "{\"type\":\"la\ufffdter\"}" {
		t.Errorf("%s, %v", got, err)
	}
}

// Members that are there twice are found however many there are.
func TestRefusesMembersTwiceAmongMany(t *testing.T) {
	part := func(last string) []byte {
		b := []byte(`{"role":"user","parts":[{"type":"text","text":"a"`)
		for i := range 1000 {
			b = fmt.Appendf(b, `,"m%d":0`, i)
		}
		return append(b, `,"`+last+`":0}]}`...)
	}
	var m Message
	if err := m.UnmarshalJSON(part("m1000")); err != nil {
		t.Error(err)
	}
	if err := m.UnmarshalJSON(part("m7")); err == nil || !strings.Contains(err.Error(), `"m7" is there twice`) {
		t.Errorf("it is told %v", err)
	}
}
