package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// script is a server that answers with the given events, and keeps what it was
// asked.
type script struct {
	url     string
	request []byte
}

// plays serves events, each of which is the JSON of one.
func plays(t testing.TB, events ...string) *script {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return answers(t, "text/event-stream", b.String())
}

func answers(t testing.TB, contentType, body string) *script {
	s := &script{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.request, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("x-request-id", "req_1")
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *script) model(t testing.TB, o openai.Options) *openai.Responses {
	t.Helper()
	o.Model, o.BaseURL = "gpt-5-mini", s.url
	if o.Origin == "" {
		o.Origin = "api.openai.com"
	}
	m, err := openai.NewResponses(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *script) ask(t testing.TB, o openai.Options, messages ...llm.Message) (llm.Message, llm.Finish, error) {
	t.Helper()
	if len(messages) == 0 {
		messages = []llm.Message{llm.UserText("Go.")}
	}
	return llm.Collect(s.model(t, o).Generate(context.Background(), llm.Request{Messages: messages}))
}

// must is ask where no error is expected.
func (s *script) must(t testing.TB, messages ...llm.Message) (llm.Message, llm.Finish) {
	t.Helper()
	m, f, err := s.ask(t, openai.Options{}, messages...)
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

// input returns what the server was told of the conversation.
func (s *script) input(t testing.TB) []json.RawMessage {
	t.Helper()
	var body struct{ Input []json.RawMessage }
	if err := json.Unmarshal(s.request, &body); err != nil {
		t.Fatal(err)
	}
	return body.Input
}

// The events that most tests have.
const (
	completed = `{"type":"response.completed","response":{"status":"completed","output":[]}}`
	filtered  = `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}`
	cutOff    = `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`
)

func added(place int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, place, item)
}

func ended(place int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, place, item)
}

func text(place int, s string) string {
	return fmt.Sprintf(`{"type":"response.output_text.delta","output_index":%d,"content_index":0,"delta":%q}`, place, s)
}

func args(place int, s string) string {
	return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","output_index":%d,"delta":%q}`, place, s)
}

func said(id, s string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"status":"completed","role":"assistant","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, id, s)
}

func call(id, name, args string) string {
	return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","status":"completed","call_id":%q,"name":%q,"arguments":%q}`, id, id, name, args)
}

const begun = `{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}`

// kind is that of an error, "" where it has none.
func kind(err error) llm.ErrorKind {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestStreamsThatMakeNoSense(t *testing.T) {
	for name, events := range map[string][]string{
		"text for an item that has not begun":      {text(0, "a")},
		"arguments for an item that has not begun": {added(0, call("c1", "read", "")), args(1, "{}")},
		"an item begins twice":                     {added(0, begun), text(0, "a"), added(0, call("c1", "read", ""))},
		"text after the item's end":                {added(0, begun), ended(0, said("msg_1", "a")), text(0, "b")},
		"an item ends twice":                       {added(0, begun), ended(0, said("msg_1", "a")), ended(0, said("msg_1", "a"))},
		"an item ends that has not begun":          {ended(0, said("msg_1", "a"))},
		"text for a call":                          {added(0, call("c1", "read", "")), text(0, "a")},
		"arguments for a message":                  {added(0, begun), args(0, "{}")},
		"an item ends as another kind":             {added(0, begun), ended(0, call("c1", "read", "{}"))},
		"a delta without a place":                  {added(0, begun), `{"type":"response.output_text.delta","delta":"a"}`},
		"an item without a place":                  {`{"type":"response.output_item.added","item":` + begun + `}`},
		"a call ends under another id":             {added(0, call("c1", "read", "")), ended(0, call("c2", "read", "{}"))},
		"a call ends under another name":           {added(0, call("c1", "read", "")), ended(0, call("c1", "write", "{}"))},
		"a delta for one of two items":             {added(0, numbered(1, "")), added(0, numbered(2, "")), args(0, `{}`)},
		"an item that begins twice, by its id":     {added(0, numbered(1, "")), ended(0, numbered(1, "{}")), added(0, numbered(1, ""))},
		"less arguments whole than in pieces":      {added(0, call("c1", "read", "")), args(0, `{"a":1}`), ended(0, call("c1", "read", ``))},
		"completed without an item's end":          {added(0, call("c1", "read", "")), args(0, `{"a":1}`), completed},
		"a response without its end":               {`{"type":"response.completed","response":{"status":"completed"}`},
		"an item without a type":                   {added(0, `{"id":"x"}`)},
		"an item that is none":                     {`{"type":"response.completed","response":{"status":"completed","output":[{}]}}`},
		"no JSON":                                  {`{"type":`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := plays(t, append(events, completed)...).ask(t, openai.Options{})
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != llm.ErrMalformed || e.Provider != "openai.responses" || e.RequestID != "req_1" {
				t.Errorf("%#v", err)
			}
		})
	}
}

// Some servers give an item another id in each event, and others have the whole
// of it in one place only.
func TestItemsAreToldApartByTheirPlace(t *testing.T) {
	oslo := `{"city":"Oslo"}`
	response := `{"type":"response.completed","response":{"status":"completed","output":[` + said("msg_9", "Let me look.") + "," + call("c1", "get_weather", oslo) + `]}}`
	for name, events := range map[string][]string{
		"ids that change": {
			added(0, begun), text(0, "Let me"), ended(0, said("msg_7", "Let me look.")),
			added(1, call("c1", "get_weather", "")), args(1, oslo), ended(1, call("c1", "get_weather", oslo)), response,
		},
		"the end of items left out":       {added(0, begun), text(0, "Let me look."), added(1, call("c1", "get_weather", "")), args(1, oslo), response},
		"nothing before the end":          {response},
		"a response without its output":   {added(0, begun), ended(0, said("msg_1", "Let me look.")), added(1, call("c1", "get_weather", oslo)), ended(1, call("c1", "get_weather", oslo)), completed},
		"calls begin before text's end":   {added(0, begun), text(0, "Let me"), added(1, call("c1", "get_weather", "")), text(0, " look."), args(1, oslo), ended(1, call("c1", "get_weather", oslo)), ended(0, said("msg_1", "Let me look.")), completed},
		"arguments at once, as an object": {added(0, begun), text(0, "Let me look."), ended(0, said("msg_1", "Let me look.")), added(1, strings.Replace(call("c1", "get_weather", ""), `"arguments":""`, `"arguments":`+oslo, 1)), ended(1, strings.Replace(call("c1", "get_weather", ""), `"arguments":""`, `"arguments":`+oslo, 1)), completed},
	} {
		t.Run(name, func(t *testing.T) {
			m, f := plays(t, events...).must(t)
			if f.Reason != llm.StopToolCalls || len(m.Parts) != 2 {
				t.Fatalf("%s: %#v", f.Reason, m.Parts)
			}
			said, _ := m.Parts[0].(llm.Text)
			asked, _ := m.Parts[1].(llm.ToolCall)
			if said.Text != "Let me look." || said.Native == nil || asked.ProviderID != "c1" || string(asked.Arguments) != oslo {
				t.Errorf("%#v", m.Parts)
			}
		})
	}
}

// A call that was broken off before its arguments began must not run as one
// without any, whatever broke it off.
func TestCallsThatAreBrokenOff(t *testing.T) {
	half := `{"type":"function_call","status":"incomplete","call_id":"c1","name":"wipe","arguments":""}`
	for _, strict := range []bool{false, true} {
		for name, events := range map[string][]string{
			"by the filter":           {added(0, call("c1", "wipe", "")), filtered},
			"by the filter, and told": {added(0, call("c1", "wipe", "")), ended(0, half), filtered},
			"by the limit":            {added(0, call("c1", "wipe", "")), cutOff},
			"by the limit, and told":  {added(0, call("c1", "wipe", "")), ended(0, half), cutOff},
			"after what stood for it": {added(0, call("c1", "wipe", "")), args(0, "{}"), added(1, call("c2", "read", "")), ended(1, call("c2", "read", "{}")), cutOff},
			"in the middle":           {added(0, call("c1", "wipe", "")), args(0, `{"dir`), cutOff},
			"before another":          {added(0, call("c1", "wipe", "")), added(1, call("c2", "read", "")), ended(1, call("c2", "read", "{}")), cutOff},
		} {
			m, f, err := plays(t, events...).ask(t, openai.Options{Strict: strict})
			if err != nil || f.Reason != llm.StopLength && f.Reason != llm.StopRefusal {
				t.Errorf("%s: %v, %v", name, f.Reason, err)
				continue
			}
			if args, err := llm.Arguments(m.ToolCalls()[0].Arguments); err == nil {
				t.Errorf("%s: runs with %s", name, args)
			}
		}
	}
}

func TestErrorsInsideAReply(t *testing.T) {
	failed := func(code, message string) string {
		return fmt.Sprintf(`{"type":"response.failed","response":{"status":"failed","error":{"code":%q,"message":%q},"output":[]}}`, code, message)
	}
	for event, want := range map[string]llm.ErrorKind{
		failed("rate_limit_exceeded", "Slow down."):    llm.ErrRateLimited,
		failed("server_error", "Sorry."):               llm.ErrOverloaded,
		failed("context_length_exceeded", "Too long."): llm.ErrContextTooLong,
		failed("invalid_image_url", "No such image."):  llm.ErrInvalid,
		failed("bio_policy", "No."):                    llm.ErrInvalid,
		failed("", ""):                                 llm.ErrOverloaded,
		`{"type":"error","code":"server_error","message":"Sorry.","param":null,"sequence_number":2}`:         llm.ErrOverloaded,
		`{"type":"error","code":"rate_limit_exceeded","message":"Slow down.","param":null}`:                  llm.ErrRateLimited,
		`{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"No."}}`: llm.ErrAuth,
		`{"type":"error","error":{"type":"invalid_request_error","code":null,"message":"No.","param":"x"}}`:  llm.ErrInvalid,
		`{"error":"out of memory"}`:                        llm.ErrOverloaded,
		`{"error":{"code":500,"message":"out of memory"}}`: llm.ErrOverloaded,
		`{"type":"response.failed","response":{}}`:         llm.ErrOverloaded,
	} {
		m, f, err := plays(t, added(0, begun), text(0, "It is"), event).ask(t, openai.Options{})
		if kind(err) != want || f != (llm.Finish{}) || m.Text() != "It is" {
			t.Errorf("%s: %v, %v", event, f, err)
		}
	}
}

// hangs begins a stream, and goes on when the channel is closed.
func hangs(t testing.TB, until chan struct{}) *script {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: "+added(0, begun)+"\n\n")
		w.(http.Flusher).Flush()
		<-until
	}))
	t.Cleanup(server.Close)
	return &script{url: server.URL}
}

// A caller that leaves the loop is not called again, wherever that is, and
// whatever comes after.
func TestLeavingTheLoop(t *testing.T) {
	for _, last := range []string{completed, text(7, "nonsense"), `{"type":"error","message":"Sorry."}`} {
		s := plays(t, added(0, begun), text(0, "a"), text(0, "b"), added(1, call("c1", "read", "")), args(1, "{}"),
			ended(0, said("msg_1", "abc")), added(2, search), ended(2, search), ended(1, call("c1", "read", "{}")), last)
		m := s.model(t, openai.Options{})
		for n := range 12 {
			seen := 0
			for range m.Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText("a")}}) {
				if seen++; seen > n {
					break
				}
			}
		}
	}
}
