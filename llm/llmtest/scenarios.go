package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/llm"
)

// scenario is a recorded reply, and what has to come of it.
type scenario struct {
	name  string
	parts []llm.Part // without ids and native forms; what a reasoning says may differ
	stop  llm.StopReason
	word  string // the provider's, with StopOther
	usage *llm.Usage
	// broken are the arguments of the last call, which must never be taken for
	// an object.
	broken bool
	// native is what a native form holds, and has to be in the next request
	// byte for byte.
	native string
	// format asks for a JSON value.
	format   bool
	streamed bool // there is no such reply but in a stream
	fails    *failure
}

// failure is what an error says.
type failure struct {
	kind      llm.ErrorKind
	temporary bool
	id        string
	after     time.Duration
}

func call(name, args string) llm.ToolCall {
	return llm.ToolCall{Name: name, Arguments: json.RawMessage(args)}
}

func text(s string) llm.Text { return llm.Text{Text: s} }

const (
	// Stands in the replies for what a provider signed or encrypted.
	signature = "c2lnbmF0dXJlL2Zlcm1hdGE="
	requestID = "req_fermata_1"
)

var scenarios = []scenario{
	{name: "text", parts: []llm.Part{text("It is 7 °C in Tromsø ☂️ today.")}, stop: llm.StopEnd,
		usage: &llm.Usage{Input: 25, Output: 12}},
	{name: "tool", parts: []llm.Part{call("get_weather", `{"city":"Tromsø"}`)},
		stop: llm.StopToolCalls},
	{name: "text_and_tool", parts: []llm.Part{text("Let me look."),
		call("get_weather", `{"city":"Oslo"}`)}, stop: llm.StopToolCalls},
	{name: "parallel", parts: []llm.Part{call("get_weather", `{"city":"Oslo"}`),
		call("get_time", `{}`), call("get_weather", `{"city":"Bergen"}`)}, stop: llm.StopToolCalls},
	{name: "escapes", parts: []llm.Part{call("get_weather", `{"city":"a\"b\\c\u00e9\n𝄞"}`)},
		stop: llm.StopToolCalls},
	{name: "big_numbers", parts: []llm.Part{call("transfer",
		`{"id":9007199254740993,"n":18446744073709551615}`)}, stop: llm.StopToolCalls},
	{name: "fenced", parts: []llm.Part{call("get_weather", `{"city":"Oslo"}`)},
		stop: llm.StopToolCalls},
	{name: "broken_arguments", parts: []llm.Part{call("get_weather", ``)}, stop: llm.StopToolCalls,
		broken: true},
	{name: "cut_arguments", parts: []llm.Part{call("get_weather", ``)}, stop: llm.StopLength,
		broken: true},
	{name: "cut_at_once", parts: []llm.Part{call("get_weather", ``)}, stop: llm.StopLength,
		broken: true},
	{name: "unknown_tool", parts: []llm.Part{call("reed", `{"path":"x"}`)},
		stop: llm.StopToolCalls},
	{name: "reasoning", parts: []llm.Part{llm.Reasoning{}, call("get_weather", `{"city":"Oslo"}`)},
		stop: llm.StopToolCalls, native: signature},
	{name: "redacted", parts: []llm.Part{llm.Reasoning{}, text("Done.")}, stop: llm.StopEnd,
		native: signature},
	{name: "refusal", stop: llm.StopRefusal},
	{name: "usage", parts: []llm.Part{text("ok")}, stop: llm.StopEnd,
		usage: &llm.Usage{Input: 100, Cached: 60, Output: 30, Reasoning: 10}},
	{name: "other", parts: []llm.Part{text("It is 7 °C in Tromsø ☂️ today.")}, stop: llm.StopOther,
		word: "dreaming"},
	{name: "other_call", parts: []llm.Part{call("get_weather", `{"city":"Tromsø"}`)},
		stop: llm.StopOther, word: "dreaming"},
	{name: "halves", streamed: true, parts: []llm.Part{text("Let 𝄞 look."),
		call("get_weather", `{"city":"𝄞"}`)}, stop: llm.StopToolCalls},
	{name: "structured", parts: []llm.Part{text(`{"temp_c":7}`)}, stop: llm.StopEnd, format: true},
	{name: "long", parts: []llm.Part{text(longText)}, stop: llm.StopEnd},
	{name: "empty", stop: llm.StopEnd},
	{name: "error_auth", fails: &failure{llm.ErrAuth, false, requestID, 0}},
	{name: "error_rate", fails: &failure{llm.ErrRateLimited, true, requestID, 7 * time.Second}},
	{name: "error_overloaded", fails: &failure{llm.ErrOverloaded, true, requestID, 0}},
	{name: "error_server", fails: &failure{llm.ErrOverloaded, true, requestID, 0}},
	{name: "error_context", fails: &failure{llm.ErrContextTooLong, false, requestID, 0}},
	{name: "error_invalid", fails: &failure{llm.ErrInvalid, false, requestID, 0}},
	{name: "error_midstream", streamed: true, fails: &failure{llm.ErrOverloaded, true, requestID,
		0}},
	{name: "error_html", fails: &failure{llm.ErrOverloaded, true, "", 0}},
}

func (s scenario) run(t *testing.T, p Provider, whole bool) {
	answer := must(t, p, s.name, whole)
	srv := serve(t, atOnce, answer)
	m, fin, err := model(t, p, srv, whole).collect(t, s.request())
	if s.fails != nil {
		s.fails.check(t, p, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.check(t, m, fin)
	if s.format && !strings.Contains(string(srv.asked()[0]), "temp_c") {
		t.Errorf("the request doesn't hold the schema of the response: %s", srv.asked()[0])
	}
	s.again(t, p, whole, m)
}

func (s scenario) request() llm.Request {
	req := llm.Request{System: "Be brief.", Messages: []llm.Message{llm.UserText("What is the weather?")}, Tools: weatherTools}
	if s.format {
		req.Tools = nil
		req.ResponseFormat = llm.ResponseFormat{Name: "weather",
			Description: "What it is like outside.", Schema: json.RawMessage(
				`{"type":"object","properties":{"temp_c":{"type":"number"}},"required":["temp_c"],"additionalProperties":false}`)}
	}
	return req
}

// check compares a message with the one that was recorded.
func (s scenario) check(t testing.TB, m llm.Message, fin llm.Finish) {
	t.Helper()
	if fin.Reason != s.stop {
		t.Errorf("the model stopped for %q, want %q", fin.Reason, s.stop)
	}
	if s.usage != nil {
		got := fin.Usage
		// Which some providers tell of, and others don't.
		got.Written, got.Predicted = s.usage.Written, s.usage.Predicted
		if got != *s.usage {
			t.Errorf("the usage is %+v, want %+v", got, *s.usage)
		}
	}
	if s.stop == llm.StopOther && fin.Word != s.word {
		t.Errorf("the provider's word is %q, want %q", fin.Word, s.word)
	}
	if s.stop == llm.StopRefusal {
		return // what it says with it is its own
	}
	got := neutral(m)
	if s.broken {
		calls := m.ToolCalls()
		if len(calls) != 1 {
			t.Fatalf("the calls are %v, want one", calls)
		}
		if args, err := llm.Arguments(calls[0].Arguments); err == nil {
			t.Errorf("arguments that were cut off, or are no JSON, were taken for %s", args)
		}
		got = []llm.Part{call(calls[0].Name, "")}
	}
	if d := cmp.Diff(s.parts, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the message differs (-want +got):\n%s", clip(d))
	}
	if s.native != "" && !holdsNative(m, s.native) {
		t.Errorf("no native form holds %s: %v", s.native, m.Parts)
	}
}

// neutral returns a message's parts without what is the provider's own. A
// reasoning, shown or not, is a bare Reasoning.
func neutral(m llm.Message) (parts []llm.Part) {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			parts = append(parts, text(p.Text))
		case llm.ToolCall:
			parts = append(parts, call(p.Name, string(p.Arguments)))
		case llm.Reasoning, llm.Opaque:
			if n := len(parts); n == 0 || !cmp.Equal(parts[n-1], llm.Part(llm.Reasoning{})) {
				parts = append(parts, llm.Reasoning{})
			}
		default:
			parts = append(parts, p)
		}
	}
	return parts
}

func holdsNative(m llm.Message, s string) bool {
	for _, p := range m.Parts {
		var n *llm.Native
		switch p := p.(type) {
		case llm.Text:
			n = p.Native
		case llm.Reasoning:
			n = p.Native
		case llm.ToolCall:
			n = p.Native
		case llm.Opaque:
			n = &p.Native
		}
		if n != nil && strings.Contains(string(n.Data), s) {
			return true
		}
	}
	return false
}

// again asks with the message in the history, stored and read as another
// process would, and with results of its calls.
func (s scenario) again(t *testing.T, p Provider, whole bool, m llm.Message) {
	if len(m.Parts) == 0 {
		return
	}
	srv := serve(t, atOnce, must(t, p, "text", whole))
	req := s.request()
	req.Messages = append(req.Messages, stored(t, m)...)
	if s.stop == llm.StopEnd || len(m.ToolCalls()) == 0 {
		req.Messages = append(req.Messages, llm.UserText("And now?"))
	}
	if _, _, err := model(t, p, srv, whole).collect(t, req); err != nil {
		t.Fatalf("with its own message in the history: %v", err)
	}
	body := srv.asked()[0]
	if s.native != "" && !strings.Contains(string(body), s.native) {
		t.Errorf("the next request doesn't hold %s:\n%s", s.native, body)
	}
	paired(t, p, body)
}

// stored returns a message as history has it, with fermata's ids and its calls'
// results, after a round trip through its stored form.
func stored(t testing.TB, m llm.Message) []llm.Message {
	t.Helper()
	results := llm.Message{Role: llm.RoleTool}
	for i, part := range m.Parts {
		if c, ok := part.(llm.ToolCall); ok {
			c.ID = fmt.Sprintf("call_fermata%d", i)
			m.Parts[i] = c
			results.Parts = append(results.Parts,
				llm.ToolResult{Call: c.ID, Name: c.Name, Output: json.RawMessage(`{"temp_c":7}`)})
		}
	}
	all := []llm.Message{m}
	if len(results.Parts) > 0 {
		all = append(all, results)
	}
	for i := range all {
		b, err := all[i].AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = llm.Message{}
		if err := json.Unmarshal(b, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// paired checks that a request's calls have unique ids, and each one its
// result.
func paired(t testing.TB, p Provider, body []byte) {
	t.Helper()
	calls, results := p.Calls(body)
	if strings.Contains(string(body), "four degrees") && len(calls) == 0 {
		t.Errorf("Provider.Calls finds no call in %s", body)
	}
	if sorted := slices.Sorted(slices.Values(calls)); p.Lacks["call_ids"] == "" &&
		len(slices.Compact(sorted)) != len(calls) {
		t.Errorf("an id comes twice among %q", calls)
	}
	if !cmp.Equal(calls, results, cmpopts.EquateEmpty()) {
		t.Errorf("the calls are %q, and the results %q", calls, results)
	}
}

func (f failure) check(t testing.TB, p Provider, err error) {
	t.Helper()
	var e *llm.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *llm.Error", err)
	}
	if e.Kind != f.kind || e.Retryable() != f.temporary || e.RequestID != f.id ||
		e.RetryAfter != f.after || e.Provider != p.Name {
		t.Errorf("the error is %+v, want %+v", e, f)
	}
	if s := e.Error(); len(s) > 2000 || strings.Contains(s, APIKey) {
		t.Errorf("the error is too long, or tells the key: %s", clip(s))
	}
}

func clip(s string) string { return excerpt.To(s, 2000) }
