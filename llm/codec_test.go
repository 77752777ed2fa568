package llm

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
)

// The stored form. Sessions live for months: a change here needs a reader of
// the old form.
var forms = []struct {
	name string
	part Part
	json string
}{
	{"text", Text{Text: `a<b> & "c"`}, `{"type":"text","text":"a<b> & \"c\""}`},
	{"empty text", Text{}, `{"type":"text","text":""}`},
	{"reasoning", Reasoning{Text: "hm", Native: &Native{"acme", raw(`{"sig":"=="}`)}},
		`{"type":"reasoning","text":"hm","native":{"provider":"acme","data":{"sig":"=="}}}`},
	{"tool call", ToolCall{ID: "c1", Name: "deploy", Arguments: raw(`{"v": 1.0}`), ProviderID: "call_0"},
		`{"type":"tool_call","id":"c1","name":"deploy","arguments":{"v": 1.0},"provider_id":"call_0"}`},
	{"tool result", ToolResult{Call: "c1", Name: "deploy", Output: raw(`"<ok>"`)},
		`{"type":"tool_result","call":"c1","name":"deploy","output":"<ok>"}`},
	{"failed tool result", ToolResult{Call: "c1", Name: "deploy", Output: raw(`"no"`), Error: true},
		`{"type":"tool_result","call":"c1","name":"deploy","output":"no","error":true}`},
	{"tool result with media", ToolResult{Call: "c1", Output: raw("1"), Media: []Media{{MediaType: "image/png", URL: "u"}, {MediaType: "a/b", Data: []byte{1}}}},
		`{"type":"tool_result","call":"c1","output":1,"media":[{"type":"media","media_type":"image/png","url":"u"},{"type":"media","media_type":"a/b","data":"AQ=="}]}`},
	{"notice", Notice{Handle: "build", Tool: "make", Call: "c1", State: "stopped", Text: "<ok>"},
		`{"type":"notice","handle":"build","tool":"make","call":"c1","state":"stopped","text":"<ok>"}`},
	{"media", Media{MediaType: "image/png", Name: "a.png", Data: []byte{0xfb, 0xff}},
		`{"type":"media","media_type":"image/png","name":"a.png","data":"+/8="}`},
	{"linked media", Media{MediaType: "image/png", URL: "https://x/?a&b"},
		`{"type":"media","media_type":"image/png","url":"https://x/?a&b"}`},
	{"opaque", Opaque{Native{"acme", raw(`[1, 2]`)}}, `{"type":"opaque","native":{"provider":"acme","data":[1, 2]}}`},
	{"unknown", Unknown{"hologram", raw(`{"z": 9007199254740993, "type" : "hologram"}`)},
		`{"z": 9007199254740993, "type" : "hologram"}`},
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func encode(t testing.TB, m Message) string {
	t.Helper()
	b, err := m.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func decode(t testing.TB, s string) Message {
	t.Helper()
	var m Message
	if err := m.UnmarshalJSON([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEveryPartHasItsStoredForm(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			m := Message{Role: RoleAssistant, Parts: []Part{f.part}}
			want := `{"role":"assistant","parts":[` + f.json + `]}`
			if got := encode(t, m); got != want {
				t.Errorf("encoded\n%s\nwant\n%s", got, want)
			}
			if d := cmp.Diff(m, decode(t, want)); d != "" {
				t.Errorf("decoded (-want +got):\n%s", d)
			}
		})
	}
}

func TestPartAloneHasTheSameForm(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			got, err := f.part.(json.Marshaler).MarshalJSON()
			if err != nil || string(got) != f.json {
				t.Fatalf("%s, %v; want %s", got, err, f.json)
			}
			back := reflect.New(reflect.TypeOf(f.part))
			err = json.Unmarshal(got, back.Interface())
			if d := cmp.Diff(f.part, back.Elem().Interface()); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
	for in, want := range map[string]string{
		`{"type":"text","text":7}`:    "llm: text is no string",
		`{"type":"text","text":""} x`: "llm: invalid character 'x' after top-level value (at byte 26)",
		`{"type":"text"`:              "llm: the text ends too early (at byte 14)",
	} {
		p := Text{Text: "as it was"}
		if err := p.UnmarshalJSON([]byte(in)); err == nil || !strings.HasPrefix(err.Error(), want) || p.Text != "as it was" {
			t.Errorf("%s: %v, %v", in, p, err)
		}
	}
	if p := (Text{Text: "as it was"}); p.UnmarshalJSON([]byte(" null ")) != nil || p.Text != "as it was" {
		t.Errorf("null changed the part: %v", p)
	}
	if _, err := (ToolCall{Arguments: raw("{")}).MarshalJSON(); err == nil || !strings.HasPrefix(err.Error(), "llm: arguments: ") {
		t.Errorf("broken arguments: %v", err)
	}
	var call ToolCall
	if err := json.Unmarshal([]byte(`{"type":"text","text":"x"}`), &call); err == nil || !strings.Contains(err.Error(), "llm.Text") {
		t.Errorf("a text was decoded as a call: %v", err)
	}
}

func TestRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := anyMessage().Draw(t, "message")
		b, err := m.AppendJSON([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		b, ok := bytes.CutPrefix(b, []byte("before"))
		if !ok || !json.Valid(b) {
			t.Fatalf("not appended, or no JSON: %s", b)
		}
		var back Message
		if err := back.UnmarshalJSON(b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, back); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		// encoding/json rewrites white space and some characters, and no more
		// than that.
		std, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var plain, viaStd any
		if json.Unmarshal(b, &plain) != nil || json.Unmarshal(std, &viaStd) != nil || !cmp.Equal(plain, viaStd) {
			t.Fatalf("%s\nand\n%s\ndiffer", b, std)
		}
	})
}

func TestDecodedMessageOwnsItsMemory(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := anyMessage().Draw(t, "message")
		b, err := m.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		var back Message
		if err := back.UnmarshalJSON(b); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = 'X'
		}
		if d := cmp.Diff(m, back); d != "" {
			t.Fatalf("changed with the input (-want +got):\n%s", d)
		}
	})
}

func TestEmptyRawJSONIsLeftOut(t *testing.T) {
	for _, empty := range []json.RawMessage{nil, {}, raw(" \n")} {
		m := Message{Role: RoleTool, Parts: []Part{
			ToolCall{ID: "c", Arguments: empty}, ToolResult{Call: "c", Output: empty},
			Text{Native: &Native{Provider: "p", Data: empty}}, Opaque{Native{Provider: "p", Data: empty}},
		}}
		want := `{"role":"tool","parts":[{"type":"tool_call","id":"c"},{"type":"tool_result","call":"c"},` +
			`{"type":"text","text":"","native":{"provider":"p"}},{"type":"opaque","native":{"provider":"p"}}]}`
		if got := encode(t, m); got != want {
			t.Errorf("%q: %s", empty, got)
		}
		if _, err := json.Marshal(m); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
	if got := encode(t, Message{Parts: []Part{Unknown{Type: "x"}}}); got != `{"role":"","parts":[{"type":"x"}]}` {
		t.Error(got)
	}
}

func TestUnknownMembersOfAMessageAreKept(t *testing.T) {
	const in = `{"later": {"n" : 9007199254740993} ,"role":"user","parts":[],"\u0061":1}`
	const want = `{"role":"user","parts":[],"later":{"n" : 9007199254740993},"a":1}`
	m := decode(t, in)
	if got := encode(t, m); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := encode(t, decode(t, want)); got != want {
		t.Errorf("a second time: %s", got)
	}
}

func TestInvalidUTF8IsNeverWritten(t *testing.T) {
	m := Message{Role: "a\xff", Parts: []Part{Text{Text: "\xffa\xe6\xb0"}, ToolCall{ID: "\x80"}}}
	want := "{\"role\":\"a\uFFFD\",\"parts\":[{\"type\":\"text\",\"text\":\"\uFFFDa\uFFFD\uFFFD\"},{\"type\":\"tool_call\",\"id\":\"\uFFFD\"}]}"
	if got := encode(t, m); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestDecodingTakesWhatJSONAllows(t *testing.T) {
	for in, want := range map[string]Message{
		`null`:                          {Role: "as it was"},
		` { "role":"","parts" : [ ] } `: {},
		`{"role":"x","parts":[{"text":"\ud834\udd10\n\/","type":"text"}]}`:                  {Role: "x", Parts: []Part{Text{Text: "𝄐\n/"}}},
		`{"r\u006fle":"\u0075ser","parts":[{"\u0074ype":"t\u0065xt","te\u0078t":""}]}`:      {Role: RoleUser, Parts: []Part{Text{}}},
		`{"role":"x","parts":[{"type":"text","text":"\ud800"}]}`:                            {Role: "x", Parts: []Part{Text{Text: "\uFFFD"}}},
		"{\"role\":\"x\",\"parts\":[{\"type\":\"text\",\"text\":\"a\xff\"}]}":               {Role: "x", Parts: []Part{Text{Text: "a\uFFFD"}}},
		`{"role":"x","parts":[{"type":"text","text":"\u0a9f\u0A9F\b\f\r\t\"\\"}]}`:          {Role: "x", Parts: []Part{Text{Text: "\u0a9f\u0a9f\b\f\r\t\"\\"}}},
		`{"role":"x","parts":[{"type":"tool_call","arguments":null}]}`:                      {Role: "x", Parts: []Part{ToolCall{Arguments: raw("null")}}},
		`{"role":"x","parts":[{"type":"tool_result","error":false,"unheard":[null,null]}]}`: {Role: "x", Parts: []Part{ToolResult{}}},
	} {
		m := Message{Role: "as it was"}
		if err := m.UnmarshalJSON([]byte(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		} else if d := cmp.Diff(want, m); d != "" {
			t.Errorf("%s (-want +got):\n%s", in, d)
		}
	}
}

func TestCodecAllocations(t *testing.T) {
	m := smallCall()
	buf := make([]byte, 0, 1024)
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"append with room":  {0, func() { buf, _ = m.AppendJSON(buf[:0]) }},
		"append to nothing": {1, func() { _, _ = m.AppendJSON(nil) }},
		"clean":             {0, func() { m = m.Clean() }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", name, got, c.most)
		}
	}
}

func smallCall() Message {
	return Message{Role: RoleAssistant, Parts: []Part{ToolCall{
		ID: "call_cv1q8g5k0000000000000000", Name: "deploy", ProviderID: "call_0",
		Arguments: raw(`{"service":"checkout","version":"v2.5.0"}`),
	}}}
}
