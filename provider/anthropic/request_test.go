package anthropic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

// put returns a part of the request's JSON.
func put(t testing.TB, o Options, req llm.Request, member string) string {
	t.Helper()
	s := &service{body: recorded(t, "text.stream.http")}
	collect(t, s.model(t, o), req)
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.bodies[0]), &all); err != nil {
		t.Fatal(err)
	}
	return string(all[member])
}

func refused(t testing.TB, o Options, req llm.Request, words ...string) {
	t.Helper()
	s := &service{body: recorded(t, "text.stream.http")}
	_, _, err := llm.Collect(s.model(t, o).Generate(t.Context(), req))
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.ErrInvalid || len(s.bodies) > 0 {
		t.Fatalf("%v, after %d requests, want an error of kind %s before any", err, len(s.bodies), llm.ErrInvalid)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error doesn't say %q: %v", w, err)
		}
	}
}

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

func results(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleTool, Parts: parts} }

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleUser, Parts: parts} }

// The API's rules of a conversation, which are stricter than ours.
func TestConversation(t *testing.T) {
	call := llm.ToolCall{ID: "call_1", Name: "look", Arguments: json.RawMessage(`{}`)}
	result := llm.ToolResult{Call: "call_1", Name: "look", Output: json.RawMessage(`"seen"`)}
	thought := llm.Reasoning{Text: "Hm.", Native: native(`{"type":"thinking","thinking":"Hm.","signature":"cw=="}`)}
	const (
		hi      = `{"content":[{"text":"hi","type":"text"}],"role":"user"}`
		look    = `{"content":[{"id":"call_1","input":{},"name":"look","type":"tool_use"}],"role":"assistant"}`
		seen    = `{"tool_use_id":"call_1","content":[{"text":"seen","type":"text"}],"type":"tool_result"}`
		thinks  = `{"type":"thinking","thinking":"Hm.","signature":"cw=="}`
		opening = `{"content":[{"text":"(The conversation begins with the assistant.)","type":"text"}],"role":"user"}`
	)
	for _, c := range []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"begins with the assistant", []llm.Message{llm.AssistantText("Ahoy."), llm.UserText("hi")},
			opening + `,{"content":[{"text":"Ahoy.","type":"text"}],"role":"assistant"},` + hi},
		{"results, and then the user", []llm.Message{llm.UserText("hi"), assistant(call), results(result), llm.UserText("so?")},
			hi + `,` + look + `,{"content":[` + seen + `,{"text":"so?","type":"text"}],"role":"user"}`},
		{"the user before the results", []llm.Message{llm.UserText("hi"), assistant(call), llm.UserText("so?"), results(result)},
			hi + `,` + look + `,{"content":[` + seen + `,{"text":"so?","type":"text"}],"role":"user"}`},
		{"results one by one", []llm.Message{llm.UserText("hi"), assistant(call), results(result), results(), results(llm.ToolResult{Call: "x", Error: true})},
			hi + `,` + look + `,{"content":[` + seen + `,{"tool_use_id":"x","is_error":true,"type":"tool_result"}],"role":"user"}`},
		{"blank text", []llm.Message{user(llm.Text{Text: " \n"}, llm.Text{Text: "hi"}), assistant(llm.Text{Text: "\n\n"}, call), results(result)},
			hi + `,` + look + `,{"content":[` + seen + `],"role":"user"}`},
		{"an answer of nothing", []llm.Message{llm.UserText("hi"), assistant(), llm.UserText("hello?")},
			`{"content":[{"text":"hi","type":"text"},{"text":"hello?","type":"text"}],"role":"user"}`},
		{"nothing but a thought", []llm.Message{llm.UserText("hi"), assistant(thought), llm.UserText("hello?")},
			`{"content":[{"text":"hi","type":"text"},{"text":"hello?","type":"text"}],"role":"user"}`},
		{"a thought at the end", []llm.Message{llm.UserText("hi"), assistant(thought, llm.Text{Text: "Ah."}, thought), llm.UserText("?")},
			hi + `,{"content":[` + thinks + `,{"text":"Ah.","type":"text"}],"role":"assistant"},{"content":[{"text":"?","type":"text"}],"role":"user"}`},
		{"a beginning to go on from", []llm.Message{llm.UserText("hi"), llm.AssistantText("The answer is \n")},
			hi + `,{"content":[{"text":"The answer is","type":"text"}],"role":"assistant"}`},
		{"a name that is none here", []llm.Message{llm.UserText("hi"), assistant(llm.ToolCall{ID: "call_1", Name: "fs.read é", Arguments: json.RawMessage(`[1]`)}), results(result)},
			hi + `,{"content":[{"id":"call_1","input":{"arguments":[1]},"name":"fs_read__","type":"tool_use"}],"role":"assistant"},{"content":[` + seen + `],"role":"user"}`},
		{"no name at all", []llm.Message{llm.UserText("hi"), assistant(llm.ToolCall{ID: "call_1"}), results(result)},
			hi + `,{"content":[{"id":"call_1","input":{},"name":"unnamed","type":"tool_use"}],"role":"assistant"},{"content":[` + seen + `],"role":"user"}`},
		{"a block that the user made", []llm.Message{user(llm.Opaque{Native: *native(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`)}, llm.Text{Text: "hi"})},
			`{"content":[{"type":"document","source":{"type":"file","file_id":"file_1"}},{"text":"hi","type":"text"}],"role":"user"}`},
		{"the assistant's picture", []llm.Message{llm.UserText("hi"), assistant(llm.Media{MediaType: "image/png", Name: "a.png", Data: []byte("x")}), llm.UserText("?")},
			hi + `,{"content":[{"text":"[media of type image/png, named a.png; it can't be shown here]","type":"text"}],"role":"assistant"},{"content":[{"text":"?","type":"text"}],"role":"user"}`},
		{"angle brackets, and what looks like an escape", []llm.Message{user(llm.Text{Text: `<a href="x">&amp;</a> \u003c`})},
			`{"content":[{"text":"<a href=\"x\">&amp;</a> \\u003c","type":"text"}],"role":"user"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := put(t, Options{}, llm.Request{Messages: c.messages}, "messages")
			if d := cmp.Diff("["+c.want+"]", got); d != "" {
				t.Errorf("the messages differ (-want +got):\n%s", d)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	with := func(change func(*llm.Request)) llm.Request {
		r := hello()
		change(&r)
		return r
	}
	say := func(m ...llm.Message) llm.Request { return llm.Request{Messages: m} }
	for _, c := range []struct {
		name  string
		req   llm.Request
		words []string
	}{
		{"no messages", llm.Request{}, []string{"no messages"}},
		{"nothing said", say(llm.UserText("  ")), []string{"no messages"}},
		{"a role that is none", say(llm.Message{Role: "system", Parts: []llm.Part{llm.Text{Text: "a"}}}), []string{"messages[0]", "system"}},
		{"a call of the user's", say(user(llm.ToolCall{ID: "c", Name: "look"})), []string{"messages[0] parts[0]", "call"}},
		{"a result of the assistant's", say(llm.UserText("a"), assistant(llm.Text{Text: "b"}, llm.ToolResult{Call: "c"})), []string{"messages[1] parts[1]", "result"}},
		{"a native form that is none", say(user(llm.Opaque{Native: *native(`[1]`)})), []string{"messages[0] parts[0]", "native"}},
		{"a native form that is no JSON", say(user(llm.Opaque{Native: *native(`{"type":"text"`)})), []string{"native"}},
		{"a call's native form that is none", say(llm.UserText("a"), assistant(llm.ToolCall{ID: "c", Name: "look", Native: native(`"x"`)})), []string{"native"}},
		{"negative limit", with(func(r *llm.Request) { r.Limits.OutputTokens = -1 }), []string{"OutputTokens", "-1"}},
		{"a hint that is none", with(func(r *llm.Request) { r.Cache = "forever" }), []string{"forever"}},
		{"a choice that is none", with(func(r *llm.Request) { r.ToolChoice.Mode = "some" }), []string{"some"}},
		{"a choice without tools", with(func(r *llm.Request) { r.ToolChoice.Mode = llm.ToolAny }), []string{"Request.Tools is empty"}},
		{"a choice of another tool", with(func(r *llm.Request) {
			r.Tools, r.ToolChoice = []llm.ToolDef{{Name: "look"}}, llm.ToolChoice{Mode: llm.ToolNamed, Name: "leap"}
		}), []string{"leap"}},
		{"a format that is no schema", with(func(r *llm.Request) {
			r.ResponseFormat = llm.ResponseFormat{Name: "n", Schema: json.RawMessage(`{"type":`)}
		}), []string{`"n"`}},
		{"a format that holds itself", with(func(r *llm.Request) {
			r.ResponseFormat = llm.ResponseFormat{Name: "n", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}}}}}`)}
		}), []string{"holds itself"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, Options{}, c.req, c.words...) })
	}
}

func TestThinking(t *testing.T) {
	call := llm.ToolCall{ID: "call_1", Name: "look", Arguments: json.RawMessage(`{}`)}
	result := llm.ToolResult{Call: "call_1", Name: "look", Output: json.RawMessage(`1`)}
	thought := llm.Reasoning{Native: native(`{"type":"redacted_thinking","data":"cw=="}`)}
	budget := Options{Thinking: Thinking{Type: "enabled", Budget: 2048, Display: "omitted"}}
	for _, c := range []struct {
		name    string
		options Options
		req     llm.Request
		want    string
	}{
		{"none", Options{}, hello(), ``},
		{"adaptive", Options{Thinking: Thinking{Type: "adaptive", Display: "summarized"}}, hello(), `{"display":"summarized","type":"adaptive"}`},
		{"between tools", Options{Thinking: Thinking{Type: "between_tools"}}, hello(), `{"type":"between_tools"}`},
		{"disabled", Options{Thinking: Thinking{Type: "disabled"}}, hello(), `{"type":"disabled"}`},
		{"budget", budget, hello(), `{"budget_tokens":2048,"display":"omitted","type":"enabled"}`},
		{"budget, after its own call", budget, llm.Request{Messages: []llm.Message{llm.UserText("a"), assistant(thought, call), results(result)}}, `{"budget_tokens":2048,"display":"omitted","type":"enabled"}`},
		{"budget, after a call without a thought", budget, llm.Request{Messages: []llm.Message{llm.UserText("a"), assistant(call), results(result)}}, ``},
		{"budget, after an answer without a thought", budget, llm.Request{Messages: []llm.Message{llm.UserText("a"), llm.AssistantText("b"), llm.UserText("c")}}, `{"budget_tokens":2048,"display":"omitted","type":"enabled"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := put(t, c.options, c.req, "thinking"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if got := put(t, budget, hello(), "max_tokens"); got != "18432" {
		t.Errorf("max_tokens is %s, want 16384 and the budget", got)
	}
	req := hello()
	req.Limits.OutputTokens = 2048
	refused(t, budget, req, "2048", "Limits.OutputTokens")
}

// The last block of each kind that may have a mark has it; there are never more
// than the four that the API takes.
func TestCache(t *testing.T) {
	look := llm.ToolDef{Name: "look", Input: json.RawMessage(`{}`)}
	thought := llm.Reasoning{Native: native(`{"type":"redacted_thinking","data":"cw=="}`)}
	cited := llm.Text{Text: "a", Native: native(`{"type":"text","text":"a","citations":[{"type":"x"}]}`)}
	call := llm.ToolCall{ID: "call_1", Name: "look", Arguments: json.RawMessage(`{}`)}
	result := llm.ToolResult{Call: "call_1", Name: "look", Output: json.RawMessage(`1`)}
	picture := llm.Media{MediaType: "image/png", Data: []byte("x")}
	for _, c := range []struct {
		name  string
		hint  llm.Cache
		req   llm.Request
		marks int
	}{
		{"default", llm.CacheDefault, llm.Request{System: "s", Messages: hello().Messages, Tools: []llm.ToolDef{look}}, 0},
		{"none", llm.CacheNone, llm.Request{System: "s", Messages: hello().Messages, Tools: []llm.ToolDef{look}}, 0},
		{"all", llm.CacheShort, llm.Request{System: "s", Messages: hello().Messages, Tools: []llm.ToolDef{look, {Name: "leap"}}}, 3},
		{"no system", llm.CacheLong, hello(), 1},
		{"results", llm.CacheShort, llm.Request{Messages: []llm.Message{llm.UserText("a"), assistant(thought, call), results(result)}}, 1},
		{"a picture", llm.CacheShort, llm.Request{Messages: []llm.Message{user(llm.Text{Text: "a"}, picture)}}, 1},
		{"what is replayed", llm.CacheShort, llm.Request{Messages: []llm.Message{llm.UserText("a"), assistant(thought, cited)}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Cache = c.hint
			s := &service{body: recorded(t, "text.stream.http")}
			collect(t, s.model(t, Options{ServerTools: []json.RawMessage{json.RawMessage(`{"type":"web_search_20250305","name":"web_search"}`)}}), c.req)
			if n := strings.Count(s.bodies[0], `"cache_control"`); n != c.marks {
				t.Errorf("%d marks, want %d:\n%s", n, c.marks, s.bodies[0])
			}
			if strings.Contains(s.bodies[0], `data":"cw==","cache_control`) {
				t.Errorf("thinking is marked:\n%s", s.bodies[0])
			}
		})
	}
}

func TestFormat(t *testing.T) {
	req := hello()
	req.ResponseFormat = llm.ResponseFormat{Name: "report", Description: "A report.", Schema: json.RawMessage(
		`{"type":"object","properties":{"z":{"type":"integer","minimum":1},"a":{"type":"object","properties":{"t":{"type":"string","format":"date-time"},"n":{"type":"string","format":"iban"}}}},"required":["z"]}`)}
	want := `{"effort":"low","format":{"type":"json_schema","schema":{"type":"object","properties":{"z":{"type":"integer","description":"minimum: 1"},` +
		`"a":{"type":"object","properties":{"t":{"type":"string","format":"date-time"},"n":{"type":"string","description":"format: iban"}},"additionalProperties":false}},` +
		`"required":["z"],"additionalProperties":false,"description":"A report."}}}`
	if d := cmp.Diff(want, put(t, Options{Effort: "low"}, req, "output_config")); d != "" {
		t.Errorf("the format differs (-want +got):\n%s", d)
	}
}

func TestTools(t *testing.T) {
	m := (&service{}).model(t, Options{})
	object := func(s string) json.RawMessage { return json.RawMessage(`{"type":"object","properties":{` + s + `}}`) }
	for name, c := range map[string]struct {
		tools []llm.ToolDef
		words []string
	}{
		"none":                  {nil, nil},
		"good":                  {[]llm.ToolDef{{Name: "look-at_it2", Input: object(`"a.b-c_d":{"type":"string"}`)}}, nil},
		"a name that isn't":     {[]llm.ToolDef{{Name: "fs.read", Input: object(``)}}, []string{`"fs.read"`, "rename"}},
		"no name":               {[]llm.ToolDef{{Input: object(``)}}, []string{`""`, "rename"}},
		"a long name":           {[]llm.ToolDef{{Name: strings.Repeat("a", 129), Input: object(``)}}, []string{"128"}},
		"two of a name":         {[]llm.ToolDef{{Name: "look"}, {Name: "look"}}, []string{`"look"`, "two"}},
		"a property":            {[]llm.ToolDef{{Name: "look", Input: object(`"filter[name]":{}`)}}, []string{`"look"`, `"filter[name]"`, "rename"}},
		"deeper properties":     {[]llm.ToolDef{{Name: "look", Input: object(`"a":{"type":"object","properties":{"b[]":{}}}`)}}, nil},
		"a choice at root":      {[]llm.ToolDef{{Name: "look", Input: json.RawMessage(`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`)}}, []string{`"look"`, "anyOf", "property"}},
		"a list at root":        {[]llm.ToolDef{{Name: "look", Input: json.RawMessage(`{"type":"array"}`)}}, []string{`"look"`, "object"}},
		"no JSON":               {[]llm.ToolDef{{Name: "look", Input: json.RawMessage(`{`)}}, []string{`"look"`, "JSON"}},
		"a reference elsewhere": {[]llm.ToolDef{{Name: "look", Input: json.RawMessage(`{"$ref":"https://example.com/s"}`)}}, []string{`"look"`}},
	} {
		t.Run(name, func(t *testing.T) {
			err := m.CheckTools(c.tools)
			if (err == nil) != (c.words == nil) {
				t.Fatalf("the error is %v", err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error doesn't say %s: %v", w, err)
				}
			}
		})
	}
}

// Anthropic's own tools go along, after the request's.
func TestServerTools(t *testing.T) {
	const search = `{"type":"web_search_20250305","name":"web_search","max_uses":3}`
	o := Options{ServerTools: []json.RawMessage{json.RawMessage(search)}}
	if got := put(t, o, hello(), "tools"); got != "["+search+"]" {
		t.Errorf("the tools are %s", got)
	}
	req := hello()
	req.ToolChoice = llm.ToolChoice{Mode: llm.ToolNamed, Name: "web_search"}
	if got := put(t, o, req, "tool_choice"); got != `{"name":"web_search","type":"tool"}` {
		t.Errorf("the choice is %s", got)
	}
	if err := (&service{}).model(t, o).CheckTools([]llm.ToolDef{{Name: "web_search"}}); err == nil {
		t.Error("two tools have the name web_search")
	}
	req.ToolChoice = llm.ToolChoice{Mode: llm.ToolNone}
	if got := put(t, o, req, "tool_choice"); got != `{"type":"none"}` {
		t.Errorf("the choice is %s", got)
	}
	if got := put(t, Options{}, req, "tool_choice"); got != "" {
		t.Errorf("without tools, the choice is %s", got)
	}
}

func TestMetadata(t *testing.T) {
	req := hello()
	req.Metadata = map[string]string{"session": "chat-1"}
	if got := put(t, Options{}, req, "metadata"); got != "" {
		t.Errorf("the metadata is %s", got)
	}
	req.Metadata["user_id"] = "u-1"
	if got := put(t, Options{}, req, "metadata"); got != `{"user_id":"u-1"}` {
		t.Errorf("the metadata is %s", got)
	}
}
