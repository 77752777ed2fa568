package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// toOpenAI is a client whose requests end here, whatever host they are for. It
// keeps the last body.
type toOpenAI struct{ body []byte }

func (c *toOpenAI) RoundTrip(r *http.Request) (*http.Response, error) {
	c.body, _ = io.ReadAll(r.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader("data: " + completed + "\n\n")), Request: r,
	}, nil
}

// sent returns what the options make of a request, as members of its JSON.
func sent(t *testing.T, o openai.Options, req llm.Request) map[string]json.RawMessage {
	t.Helper()
	c := &toOpenAI{}
	o.APIKey, o.Client, o.BaseURL = "sk-1", &http.Client{Transport: c}, "https://api.openai.com/v1"
	m, err := openai.NewResponses(o)
	if err != nil {
		t.Fatal(err)
	}
	if req.Messages == nil {
		req.Messages = []llm.Message{llm.UserText("Go.")}
	}
	if _, _, err := llm.Collect(m.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.body, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

func TestOptionsInTheRequest(t *testing.T) {
	session := func(c llm.Cache, id string) llm.Request {
		return llm.Request{Cache: c, Metadata: map[string]string{"session": id}}
	}
	tools := llm.Request{Tools: []llm.ToolDef{{Name: "read", Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}}
	format := llm.Request{ResponseFormat: llm.ResponseFormat{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)}}
	history := llm.Request{Messages: []llm.Message{llm.UserText("a"), {Role: llm.RoleAssistant, Parts: []llm.Part{thinks(thought), speaks(cited)}}, llm.UserText("b")}}
	for name, test := range map[string]struct {
		o    openai.Options
		req  llm.Request
		want map[string]string // "": absent
	}{
		"by default":      {openai.Options{Model: "gpt-5"}, llm.Request{}, map[string]string{"include": `["reasoning.encrypted_content"]`, "store": `false`, "reasoning": "", "prompt_cache_key": "", "tools": "", "parallel_tool_calls": ""}},
		"reasoning":       {openai.Options{Model: "gpt-5", Effort: "low", Responses: openai.ResponsesOptions{Summary: "auto"}}, llm.Request{}, map[string]string{"reasoning": `{"effort":"low","summary":"auto"}`}},
		"no reasoning":    {openai.Options{Model: "my-deployment", Responses: openai.ResponsesOptions{NoReasoning: true}}, llm.Request{}, map[string]string{"include": ""}},
		"gpt-4.1":         {openai.Options{Model: "gpt-4.1-mini"}, llm.Request{}, map[string]string{"include": ""}},
		"gpt-4o, tuned":   {openai.Options{Model: "ft:gpt-4o-mini:us::1"}, llm.Request{}, map[string]string{"include": ""}},
		"its history":     {openai.Options{Model: "gpt-4.1"}, history, map[string]string{"input": `[{"content":[{"text":"a","type":"input_text"}],"role":"user","type":"message"},` + dropped(t, cited, "id") + `,{"content":[{"text":"b","type":"input_text"}],"role":"user","type":"message"}]`}},
		"one call":        {openai.Options{Model: "gpt-5", Sequential: true}, tools, map[string]string{"parallel_tool_calls": `false`}},
		"no tools":        {openai.Options{Model: "gpt-5", Sequential: true}, llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolNone}}, map[string]string{"parallel_tool_calls": "", "tool_choice": ""}},
		"cache, default":  {openai.Options{Model: "gpt-5"}, session(llm.CacheDefault, "chat-1"), map[string]string{"prompt_cache_key": "", "prompt_cache_retention": ""}},
		"cache, none":     {openai.Options{Model: "gpt-5"}, session(llm.CacheNone, "chat-1"), map[string]string{"prompt_cache_key": "", "prompt_cache_retention": ""}},
		"cache, short":    {openai.Options{Model: "gpt-5"}, session(llm.CacheShort, "chat-1"), map[string]string{"prompt_cache_key": `"chat-1"`, "prompt_cache_retention": ""}},
		"cache, long":     {openai.Options{Model: "gpt-5"}, session(llm.CacheLong, "chat-1"), map[string]string{"prompt_cache_key": `"chat-1"`, "prompt_cache_retention": `"24h"`}},
		"a long session":  {openai.Options{Model: "gpt-5"}, session(llm.CacheShort, strings.Repeat("a", 65)), map[string]string{"prompt_cache_key": `"635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"`}},
		"strict tools":    {openai.Options{Model: "gpt-5", Strict: true}, tools, map[string]string{"tools": `[{"type":"function","name":"read","parameters":{"type":"object","properties":{"path":{"type":["string","null"]}},"required":["path"],"additionalProperties":false},"strict":true}]`}},
		"a strict format": {openai.Options{Model: "gpt-5", Strict: true}, format, map[string]string{"text": `{"format":{"type":"json_schema","name":"response","schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},"strict":true}}`}},
		"extra": {openai.Options{Model: "gpt-5", Extra: json.RawMessage(`{"temperature":0.10,"metadata":{"a.b":"1"}}`)}, history, map[string]string{
			"temperature": `0.10`, "metadata": `{"a.b":"1"}`, "stream": `true`,
			"input": `[{"content":[{"text":"a","type":"input_text"}],"role":"user","type":"message"},` + thought + "," + cited + `,{"content":[{"text":"b","type":"input_text"}],"role":"user","type":"message"}]`}},
		"a whole reply": {openai.Options{Model: "gpt-5"}, llm.Request{System: "Be <brief>.", Limits: llm.Limits{OutputTokens: 9}}, map[string]string{"stream": `true`, "instructions": `"Be <brief>."`, "max_output_tokens": `9`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := sent(t, test.o, test.req)
			for member, want := range test.want {
				if string(got[member]) != want {
					t.Errorf("%s: got %s, want %s", member, got[member], want)
				}
			}
		})
	}
}

func TestResponsesOptionsAreChecked(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_BASE_URL", "")
	for want, o := range map[string]openai.Options{
		"Options.Model":                 {APIKey: "sk-1"},
		"Options.APIKey":                {Model: "gpt-5"},
		"Options.BaseURL":               {Model: "gpt-5", APIKey: "sk-1", BaseURL: "localhost:80"},
		"Options.Timeout":               {Model: "gpt-5", APIKey: "sk-1", Timeout: -1},
		"Options.Chat is set":           {Model: "gpt-5", APIKey: "sk-1", Chat: openai.ChatOptions{NoStreamOptions: true}},
		"Extra is no JSON object":       {Model: "gpt-5", APIKey: "sk-1", Extra: json.RawMessage(`[]`)},
		"but null":                      {Model: "gpt-5", APIKey: "sk-1", Extra: json.RawMessage(`null`)},
		`Extra holds "store"`:           {Model: "gpt-5", APIKey: "sk-1", Extra: json.RawMessage(`{"store":true}`)},
		"Options.Responses.NoReasoning": {Model: "gpt-5", APIKey: "sk-1", Responses: openai.ResponsesOptions{NoReasoning: true}, Effort: "low"},
	} {
		if m, err := openai.NewResponses(o); m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, m, err)
		}
	}
}

// A member that is null since strict mode made it so is left out again; one
// that may be null stays.
func TestNullsOfStrictMode(t *testing.T) {
	read := llm.ToolDef{Name: "read", Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"line":{"type":["integer","null"]},"id":{"type":"integer"}},"required":["path"]}`)}
	given := `{"id":9007199254740993,"line":null,"path":null}`
	whole := call("c1", "read", given)
	for name, s := range map[string]*script{
		"streamed": plays(t, added(0, call("c1", "read", "")), args(0, given[:9]), args(0, given[9:]), ended(0, whole), completed),
		"whole":    answers(t, "application/json", `{"status":"completed","output":[`+whole+`]}`),
		"with a form of its own": plays(t, added(0, call("c1", "read", "")), args(0, given),
			ended(0, strings.Replace(whole, `"status"`, `"namespace":"files","status"`, 1)), completed),
	} {
		m := s.model(t, openai.Options{Strict: true, Whole: name == "whole"})
		tool := read
		tool.Input = bytes.Replace(tool.Input, []byte(`"required":["path"]`), []byte(`"required":["id"]`), 1)
		got, _, err := llm.Collect(m.Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText("a")}, Tools: []llm.ToolDef{tool}}))
		if err != nil || len(got.Parts) != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if c := got.ToolCalls()[0]; string(c.Arguments) != `{"id":9007199254740993,"line":null}` || c.ProviderID != "c1" {
			t.Errorf("%s: %s %s", name, c.ProviderID, c.Arguments)
		}
	}
}

// A page of a proxy's with a good status may pass, as it would with the status
// 502.
func TestAnswersThatAreSomethingElse(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, contentType := range []string{"text/html; charset=utf-8", "application/xml"} {
			_, _, err := answers(t, contentType, "<html>Log in").ask(t, openai.Options{Whole: whole})
			if kind(err) != llm.ErrOverloaded || !strings.Contains(err.Error(), "base URL right? It begins: <html>Log in") {
				t.Errorf("%v", err)
			}
		}
	}
	for body, want := range map[string]llm.ErrorKind{
		`{`:                                    llm.ErrTruncated,
		`{}`:                                   llm.ErrMalformed,
		`[]`:                                   llm.ErrMalformed,
		`{Log in}`:                             llm.ErrOverloaded,
		`Log in`:                               llm.ErrOverloaded,
		``:                                     llm.ErrTruncated,
		`{"status":"in_progress","output":[]}`: llm.ErrTruncated,
		`{"status":"queued","output":[]}`:      llm.ErrTruncated,
		`{"status":"cancelled","output":[]}`:   llm.ErrMalformed,
		`{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Slow."},"output":[]}`: llm.ErrRateLimited,
		`{"error":{"code":"server_error","message":"Sorry."}}`:                                     llm.ErrOverloaded,
	} {
		for _, whole := range []bool{false, true} {
			if _, _, err := answers(t, "application/json", body).ask(t, openai.Options{Whole: whole}); kind(err) != want {
				t.Errorf("%s, whole %v: %v", body, whole, err)
			}
		}
	}
}

// A server that can't stream answers a request for a stream with the whole
// response, whatever its content type, and one that always streams does so for
// a request that wants none.
func TestAWholeResponseInPlaceOfAStream(t *testing.T) {
	m, f, err := plays(t, added(0, begun), text(0, "a"), ended(0, said("msg_1", "a")), completed).ask(t, openai.Options{Whole: true})
	if err != nil || m.Text() != "a" || f.Reason != llm.StopEnd {
		t.Errorf("%v, %v, %v", m, f, err)
	}
	for _, contentType := range []string{"application/json", "text/event-stream", "text/plain", ""} {
		m, f, err := answers(t, contentType, "\uFEFF\r\n"+`{"status":"completed","output":[`+said("m1", "Let me look.")+","+call("c1", "read", `{"n":1}`)+`],"usage":{"input_tokens":3}}`).
			ask(t, openai.Options{})
		if err != nil || m.Text() != "Let me look." || len(m.ToolCalls()) != 1 || f.Reason != llm.StopToolCalls || f.Word != "completed" || f.Usage.Input != 3 {
			t.Errorf("%s: %v, %v, %v", contentType, m, f, err)
		}
	}
}

func TestResponsesTimeout(t *testing.T) {
	for _, whole := range []bool{false, true} {
		hang := make(chan struct{})
		s := hangs(t, hang)
		_, _, err := s.ask(t, openai.Options{Timeout: 50 * time.Millisecond, Whole: whole})
		if kind(err) != llm.ErrNetwork || !strings.Contains(err.Error(), "Timeout") {
			t.Errorf("%v", err)
		}
		close(hang)
	}
}

// The API breaks off a reply with an event, and what came before it stays.
func TestAnErrorInTheMiddle(t *testing.T) {
	recorded, err := os.ReadFile("testdata/responses/replies/error_midstream.stream.http")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(recorded), "\n\n")
	m, _, err := answers(t, "text/event-stream", body).ask(t, openai.Options{})
	if kind(err) != llm.ErrOverloaded || m.Text() != "It is 7" || !strings.Contains(err.Error(), "currently overloaded") {
		t.Errorf("%v, %v", m, err)
	}
}
