package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

// What stands between here and Anthropic, and what speaks its API, does as it
// likes.
func TestWhatServicesMakeOfTheAPI(t *testing.T) {
	const (
		cited  = `{"type":"text","text":"Paris","citations":[{"type":"x"}]}`
		text   = `{"type":"text","text":""}`
		look   = `{"type":"tool_use","id":"toolu_1","name":"look","input":{}}`
		search = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`
	)
	says := func(s string) string { return `{"type":"text_delta","text":"` + s + `"}` }
	thinks := func(s string) string { return `{"type":"thinking_delta","thinking":"` + s + `"}` }
	args := func(s string) string { return `{"type":"input_json_delta","partial_json":"` + s + `"}` }
	plain := []llm.Part{llm.Text{Text: "ab"}}
	for _, c := range []struct {
		name  string
		body  string
		parts []llm.Part
	}{
		{"text cut within a pair", message(endTurn, at(0, text, says(`a\ud834`), says(`\udd1eb`))), []llm.Part{llm.Text{Text: "a𝄞b"}}},
		{"text cut within a rune", message(endTurn, at(0, text, says("a\xf0\x9d"), says("\x84\x9eb"))), []llm.Part{llm.Text{Text: "a𝄞b"}}},
		{"text cut at a block's beginning", message(endTurn, at(0, `{"type":"text","text":"a\ud834"}`, says(`\udd1eb`))), []llm.Part{llm.Text{Text: "a𝄞b"}}},
		{"cited text cut within a pair", message(endTurn, at(0, `{"type":"text","text":"","citations":[{"type":"x"}]}`, says(`a\ud834`), says(`\udd1eb`))),
			[]llm.Part{llm.Text{Text: "a𝄞b", Native: native(`{"type":"text","text":"a𝄞b","citations":[{"type":"x"}]}`)}}},
		{"a half that nothing follows", message(endTurn, at(0, text, says(`a\ud834`)), at(1, text, says(`\udd1eb`))), []llm.Part{llm.Text{Text: "a\uFFFD"}, llm.Text{Text: "\uFFFDb"}}},
		{"blocks side by side, each cut within a pair", events(begin,
			at(0, text)[0], at(1, look)[0], at(0, text, says(`\ud834`))[1], at(1, look, args(`{\"n\":\"\ud834`))[1], at(0, text, says(`\udd1e`))[1],
			at(1, look, args(`\udd1e\"}`))[1], at(0, text)[1], at(1, look)[1], callsOut, stop),
			[]llm.Part{llm.Text{Text: "𝄞"}, llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{"n":"𝄞"}`)}}},
		{"thinking cut within a pair", message(endTurn, at(0, `{"type":"thinking","thinking":"","signature":""}`, thinks(`\ud834`), thinks(`\udd1e`), `{"type":"signature_delta","signature":"c2"}`)),
			[]llm.Part{llm.Reasoning{Text: "𝄞", Native: native(`{"type":"thinking","thinking":"𝄞","signature":"c2"}`)}}},
		{"arguments cut within a pair", message(callsOut, at(0, look, args(`{\"n\":\"\ud834`), args(`\udd1e\"}`))),
			[]llm.Part{llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{"n":"𝄞"}`)}}},
		{"arguments cut within an escape of theirs", message(callsOut, at(0, look, args(`{\"n\":\"\\ud834`), args(`\\udd1e\"}`))),
			[]llm.Part{llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{"n":"\ud834\udd1e"}`)}}},
		{"a server tool's input cut within a pair", message(endTurn, at(0, search, args(`{\"q\":\"\ud834`), args(`\udd1e\"}`))),
			[]llm.Part{llm.Opaque{Native: *native(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"q":"𝄞"}}`)}}},

		{"a delta of a kind to come", message(endTurn, at(0, text, says("a"), `{"type":"dream_delta","dream":"x"}`, says("b"))), plain},
		{"a delta of a kind to come, in a block of one", message(endTurn, at(0, `{"type":"dream"}`, `{"type":"dream_delta","dream":"x"}`), at(1, text, says("ab"))), plain},
		{"message_start again", events(append([]string{first, first}, append(at(0, text, says("a"), says("b")), endTurn, stop)...)...), plain},
		{"message_start again, later", events(append([]string{first, at(0, text)[0], first}, append(at(0, text, says("ab"))[1:], endTurn, stop)...)...), plain},
		{"a blank text between citations", message(endTurn, at(0, cited), at(1, text, says(" ")), at(2, cited)),
			[]llm.Part{llm.Text{Text: "Paris", Native: native(cited)}, llm.Text{Text: " ", Native: native(`{"type":"text","text":" "}`)}, llm.Text{Text: "Paris", Native: native(cited)}}},
		{"a blank text at the ends", message(endTurn, at(0, text, says("\\n")), at(1, text, says("ab")), at(2, text, says(" "))), plain},
		{"a blank text before a call", message(callsOut, at(0, text, says("ab")), at(1, text, says(" ")), at(2, look)), append(plain, llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{}`)})},

		{"bare carriage returns", strings.ReplaceAll(message(endTurn, at(0, text, says("ab"))), "\n", "\r"), plain},
		{"a byte order mark", "\uFEFF" + message(endTurn, at(0, text, says("ab"))), plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{body: c.body}
			m, _ := collect(t, s.model(t, Options{}), hello())
			if d := cmp.Diff(c.parts, m.Parts); d != "" {
				t.Fatalf("the message differs (-want +got):\n%s", d)
			}
			req := hello()
			if req.Messages = append(req.Messages, m, llm.UserText("Go on.")); len(m.ToolCalls()) == 0 {
				collect(t, s.model(t, Options{}), req)
				if strings.Contains(s.bodies[1], `"text":" "`) {
					t.Errorf("blank text is sent, which the API doesn't take: %s", s.bodies[1])
				}
			}
		})
	}
}

// The word for a reason that has no neutral form is the API's own.
func TestProvidersWord(t *testing.T) {
	for _, c := range []struct{ body, word string }{
		{message(`{"type":"message_delta","delta":{"stop_reason":"boredom"},"usage":{}}`, at(0, `{"type":"text","text":"a"}`)), "boredom"},
		{message(callsOut, at(0, `{"type":"text","text":"a"}`)), "tool_use"},
		{events(begin, stop), ""},
	} {
		if _, fin := collect(t, (&service{body: c.body}).model(t, Options{}), hello()); fin.Reason != llm.StopOther || fin.Word != c.word {
			t.Errorf("%+v, want the word %q", fin, c.word)
		}
	}
}

// A transport of the caller's may know who asks: no key is needed then, nor
// sent.
func TestTransportThatAuthenticates(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	s := &service{body: message(endTurn, at(0, `{"type":"text","text":"a"}`))}
	m, err := New(Options{Model: "m", Client: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, m, hello())
	if h := s.requests[0].Header; h.Get("X-Api-Key")+h.Get("Authorization") != "" {
		t.Errorf("without a key, %v is sent", h)
	}
	if _, err := New(Options{Model: "m", Client: &http.Client{Transport: &http.Transport{}}}); err == nil {
		t.Error("a transport of net/http is taken for one that authenticates")
	}
}

// Who asks the vendor about a stream that broke needs the request's id.
func TestBrokenStreamsTellTheRequest(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nRequest-Id: req_1\r\n\r\n"
	for name, body := range map[string]string{
		"cut off":          events(begin),
		"cut off in JSON":  events(begin) + "data: {",
		"malformed":        events(begin, begin),
		"an event no JSON": events(begin, `{"type":"content_block_start",`),
	} {
		_, _, err := llm.Collect((&service{body: head + body}).model(t, Options{}).Generate(t.Context(), hello()))
		var e *llm.Error
		if !errors.As(err, &e) || e.RequestID != "req_1" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
