package openai

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
)

// atBoth asks OpenAI and a compatible server, and returns the requests that
// they got.
func atBoth(t *testing.T, o Options, r llm.Request) (own, other string) {
	t.Helper()
	s := newChatServer(t, pieces("stop", `{"content":"ok"}`))
	if o.Whole {
		s.answer = wholly(`{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}`)
	}
	if _, _, err := ask(t, s.model(t, o), r); err != nil {
		t.Fatal(err)
	}
	other = s.last()
	o.Model, o.APIKey, o.BaseURL = "m", "k", ownURL
	o.Client = llmtest.Detour(t, llmtest.Options{BaseURL: s.URL, Client: &http.Client{Transport: s.Client().Transport}})
	m, err := NewChat(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(t, m, r); err != nil {
		t.Fatal(err)
	}
	return s.last(), other
}

func TestOptionsOfARequest(t *testing.T) {
	tools := []llm.ToolDef{{Name: "f"}}
	for _, c := range []struct {
		name       string
		o          Options
		r          llm.Request
		own, other string // what the bodies hold; "-x": and don't
	}{
		{"defaults", Options{}, llm.Request{System: "s", Limits: llm.Limits{OutputTokens: 7}},
			`"role":"developer" "max_completion_tokens":7 "stream":true "stream_options":{"include_usage":true} -"max_tokens" -"strict" -"tool_choice" -"parallel_tool_calls" -"reasoning_effort"`,
			`"role":"system" "max_tokens":7 "stream":true "stream_options":{"include_usage":true} -"max_completion_tokens"`},
		{"turned about", Options{Chat: ChatOptions{SystemRole: "system", LimitField: "max_tokens"}}, llm.Request{System: "s", Limits: llm.Limits{OutputTokens: 7}},
			`"role":"system" "max_tokens":7 -"max_completion_tokens"`, `"role":"system" "max_tokens":7`},
		{"turned about for others", Options{Chat: ChatOptions{SystemRole: "developer", LimitField: "max_completion_tokens"}}, llm.Request{System: "s", Limits: llm.Limits{OutputTokens: 7}},
			`"role":"developer"`, `"role":"developer" "max_completion_tokens":7 -"max_tokens"`},
		{"no stream options", Options{Chat: ChatOptions{NoStreamOptions: true}}, llm.Request{}, `-"stream_options" "stream":true`, `-"stream_options"`},
		{"whole", Options{Whole: true}, llm.Request{}, `-"stream"`, `-"stream_options"`},
		{"effort", Options{Effort: "low"}, llm.Request{}, `"reasoning_effort":"low"`, `"reasoning_effort":"low"`},
		{"sequential", Options{Sequential: true}, llm.Request{Tools: tools}, `"parallel_tool_calls":false`, `"parallel_tool_calls":false`},
		{"sequential without tools", Options{Sequential: true}, llm.Request{}, `-"parallel_tool_calls"`, `-"parallel_tool_calls"`},
		{"strict", Options{Strict: true}, llm.Request{Tools: tools}, `"strict":true "additionalProperties":false`, `"strict":true`},
		{"not strict", Options{}, llm.Request{Tools: tools}, `"strict":false "parameters":{"type":"object","properties":{}}`, `"strict":false`},
		{"a strict format", Options{Strict: true}, llm.Request{ResponseFormat: llm.ResponseFormat{Description: "d", Schema: []byte(`{"properties":{"a":{"type":"string"}}}`)}},
			`"name":"response" "description":"d" "strict":true "a":{"type":["string","null"]}`, `"json_schema"`},
		{"extra", Options{Extra: []byte(`{"temperature":0.5,"top_k":3,"max_tokens":9,"provider":{"only":["x"]}}`)}, llm.Request{Limits: llm.Limits{OutputTokens: 7}},
			`"temperature":0.5 "top_k":3 "provider":{"only":["x"]} "stream":true`, `"max_tokens":9 -"max_tokens":7`},
		{"no cache", Options{}, llm.Request{Cache: llm.CacheNone, Metadata: map[string]string{"session": "s"}}, `-"prompt_cache_key"`, `-"prompt_cache_key"`},
		{"the usual cache", Options{}, llm.Request{Metadata: map[string]string{"session": "s"}}, `-"prompt_cache_key"`, `-"prompt_cache_key"`},
		{"a long session", Options{}, llm.Request{Cache: llm.CacheLong, Metadata: map[string]string{"session": strings.Repeat("s", 65)}},
			`"prompt_cache_retention":"24h" "prompt_cache_key" -ssss`, `-"prompt_cache_retention" -"prompt_cache_key"`},
		{"a key for the cache, also elsewhere", Options{CacheKey: true}, llm.Request{Cache: llm.CacheShort, Metadata: map[string]string{"session": "chat-1"}},
			`"prompt_cache_key":"chat-1" -"prompt_cache_retention"`, `"prompt_cache_key":"chat-1"`},
		{"a gateway to OpenAI", Options{Origin: "api.openai.com"}, llm.Request{Cache: llm.CacheShort, Metadata: map[string]string{"session": "chat-1"}},
			`"prompt_cache_key":"chat-1"`, `"prompt_cache_key":"chat-1"`},
		{"several texts", Options{}, llm.Request{Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text{Text: "a"}, llm.Text{}, llm.Text{Text: "b"}}}, {Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: "c"}, llm.Text{Text: "d"}}}}},
			`{"text":"a","type":"text"},{"text":"b","type":"text"} {"text":"c","type":"text"},{"text":"d","type":"text"}`, `"content":"a\n\nb" "content":"c\n\nd"`},
		{"what is native to OpenAI", Options{}, llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{
			llm.Text{Text: "look:"}, llm.Media{MediaType: "x/y", URL: "z", Native: &llm.Native{Provider: "openai.chat", Data: []byte(`{"type":"file","file":{"file_id":"f1"}}`)}},
			llm.Opaque{Native: llm.Native{Provider: "openai.chat", Data: []byte(`{"type":"text","text":"opaque"}`)}}}}}},
			`{"type":"file","file":{"file_id":"f1"}} {"type":"text","text":"opaque"}`, `"filename":"document" -"f1" -opaque`},
		{"sound, and a document by URL", Options{}, llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{
			llm.Media{MediaType: "audio/mpeg", Data: []byte("x")}, llm.Media{MediaType: "Image/PNG; x=1", Data: []byte("x")}, llm.Media{MediaType: "application/pdf", Data: []byte("x")}}}}},
			`"input_audio":{"data":"eA==","format":"mp3"} "data:image/png;base64,eA==" "filename":"document.pdf"`, `"mp3"`},
		{"an image of the model's, before results", Options{}, llm.Request{Messages: []llm.Message{llm.UserText("draw"),
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Media{MediaType: "image/png", Data: []byte("x")}, llm.ToolCall{ID: "c1", Name: "f"}}},
			{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "c1", Output: []byte(`1`)}}}, {Role: llm.RoleTool, Parts: []llm.Part{llm.Unknown{}}}, llm.UserText("and?")}},
			`"tool_call_id":"c1","role":"tool"},{"content":[{"text":"Media`, `"tool_call_id":"c1","role":"tool"},{"content":[{"text":"Media`},
		{"messages that say nothing", Options{}, llm.Request{Messages: []llm.Message{llm.UserText("a"), {Role: llm.RoleAssistant}, llm.UserText(""), llm.UserText("b")}},
			`-"assistant" -"content":""`, `-"assistant" -"content":""`},
	} {
		own, other := atBoth(t, c.o, c.r)
		for body, wants := range map[string]string{own: c.own, other: c.other} {
			for _, want := range strings.Fields(wants) {
				want, not := strings.CutPrefix(want, "-")
				if strings.Contains(body, want) == not {
					t.Errorf("%s: %s in %s", c.name, want, body)
				}
			}
		}
	}
}

func TestRequestsThatCantBeSent(t *testing.T) {
	s := newChatServer(t, pieces("stop", `{"content":"ok"}`))
	say := func(role llm.Role, parts ...llm.Part) llm.Request {
		return llm.Request{Messages: []llm.Message{llm.UserText("a"), {Role: role, Parts: parts}}}
	}
	for want, r := range map[string]llm.Request{
		`messages[1]: the role "system"`:             say("system", llm.Text{Text: "a"}),
		"messages[1]: llm.ToolCall doesn't belong":   say(llm.RoleUser, llm.ToolCall{}),
		"messages[1]: llm.ToolResult doesn't belong": say(llm.RoleAssistant, llm.ToolResult{}),
		"messages[1]: llm.Text doesn't belong":       say(llm.RoleTool, llm.Text{Text: "a"}),
		"neither bytes nor a URL":                    say(llm.RoleUser, llm.Media{MediaType: "image/png"}),
		`the media type ""`:                          say(llm.RoleUser, llm.Media{Data: []byte("x")}),
		"audio/wav":                                  say(llm.RoleUser, llm.Media{MediaType: "audio/ogg", Data: []byte("x")}),
		"Limits.OutputTokens is -1":                  {Limits: llm.Limits{OutputTokens: -1}},
		`Request.Cache is "forever"`:                 {Cache: "forever"},
		`ToolChoice.Mode is "some"`:                  {ToolChoice: llm.ToolChoice{Mode: "some"}},
		`ToolChoice.Mode is "any"`:                   {ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}},
		`ToolChoice.Name is "g"`:                     {ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "g"}, Tools: []llm.ToolDef{{Name: "f"}}},
		`tool "f": the schema is no JSON`:            {Tools: []llm.ToolDef{{Name: "f", Input: []byte(`{`)}}},
		`ResponseFormat "r": the schema is no`:       {ResponseFormat: llm.ResponseFormat{Name: "r", Schema: []byte(`[]`)}},
		"native form of a part is no JSON": say(llm.RoleAssistant, llm.Reasoning{Native: &llm.Native{
			Provider: "openai.chat/" + strings.TrimPrefix(s.URL, "http://"), Data: []byte(`[1]`)}}),
	} {
		_, _, err := ask(t, s.model(t, Options{}), r)
		if kind(err) != llm.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if len(s.requests) > 0 {
		t.Errorf("it was asked: %s", s.requests)
	}
	own, err := NewChat(Options{Model: "m", APIKey: "k", BaseURL: ownURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(t, own, say(llm.RoleUser, llm.Media{MediaType: "application/pdf", URL: "https://example.com/a.pdf"})); kind(err) != llm.ErrInvalid {
		t.Error(err)
	}
}

func TestImagesThatAModelDraws(t *testing.T) {
	s := newChatServer(t, pieces("stop", `{"content":"Here:"}`, `{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,eA=="}},{"image_url":{"url":"https://example.com/a"}}]}`))
	m, _, err := ask(t, s.model(t, Options{}), llm.Request{})
	if err != nil || len(m.Parts) != 3 {
		t.Fatal(m, err)
	}
	if a, b := m.Parts[1].(llm.Media), m.Parts[2].(llm.Media); a.MediaType != "image/png" || string(a.Data) != "x" || b.URL != "https://example.com/a" {
		t.Error(a, b)
	}
	for _, bad := range []string{"", "data:image/png;base64,!", "data:,x"} {
		s.answer = pieces("stop", `{"images":[{"image_url":{"url":"`+bad+`"}}]}`)
		if _, _, err := ask(t, s.model(t, Options{}), llm.Request{}); kind(err) != llm.ErrMalformed {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
