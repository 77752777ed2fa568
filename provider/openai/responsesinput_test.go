package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

func native(data string) *llm.Native {
	return &llm.Native{Provider: "openai.responses", Data: json.RawMessage(data)}
}

// The items that most tests have, as the API gave them.
const (
	thought = `{"id":"rs_1","type":"reasoning","encrypted_content":"c2VhbA==","summary":[]}`
	more    = `{"id":"rs_2","type":"reasoning","encrypted_content":"bW9yZQ==","summary":[]}`
	nameOf  = `{"id":"rs_1","type":"reasoning","encrypted_content":null,"summary":[{"type":"summary_text","text":"Hm."}]}`
	inOpen  = `{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm <b>&"}]}`
	cited   = `{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[{"type":"url_citation","url":"https://example.com/?a=1&b=<2>"}],"text":"Hi."}],"role":"assistant","phase":"commentary"}`
	search  = `{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}`
)

func thinks(item string) llm.Reasoning { return llm.Reasoning{Text: "Hm.", Native: native(item)} }

func speaks(item string) llm.Text { return llm.Text{Text: "Hi.", Native: native(item)} }

func asks(id string) llm.ToolCall {
	return llm.ToolCall{ID: id, ProviderID: "p_" + id, Name: "read", Arguments: json.RawMessage(`{}`)}
}

// asked and answered are what the wire has for asks, and for its result.
func asked(id string) string {
	return `{"arguments":"{}","call_id":"p_` + id + `","name":"read","type":"function_call"}`
}

func answered(id string) string {
	return `{"output":"ok","call_id":"p_` + id + `","type":"function_call_output"}`
}

const plain = `{"content":"Hi.","role":"assistant","type":"message"}`

func TestTheModelsOwnItemsAreReplayed(t *testing.T) {
	for name, test := range map[string]struct {
		parts []llm.Part
		want  []string
	}{
		"reasoning before its call":              {[]llm.Part{thinks(thought), asks("1")}, []string{thought, asked("1")}},
		"reasoning twice before its message":     {[]llm.Part{thinks(thought), thinks(more), speaks(cited)}, []string{thought, more, cited}},
		"reasoning between calls":                {[]llm.Part{thinks(thought), asks("1"), thinks(more), asks("2")}, []string{thought, asked("1"), more, asked("2")}},
		"reasoning in the open":                  {[]llm.Part{thinks(inOpen), asks("1")}, []string{inOpen, asked("1")}},
		"reasoning whose item is gone":           {[]llm.Part{speaks(cited), thinks(thought)}, []string{cited}},
		"reasoning whose item was skipped":       {[]llm.Part{thinks(thought), llm.Opaque{Native: llm.Native{Provider: "x"}}, llm.Unknown{}}, nil},
		"reasoning before text without its form": {[]llm.Part{thinks(thought), llm.Text{Text: "Hi."}}, []string{thought, plain}},
		"reasoning that is a mere name":          {[]llm.Part{thinks(nameOf), speaks(cited)}, []string{dropped(t, cited, "id")}},
		"the name, and then the next item":       {[]llm.Part{thinks(nameOf), asks("1"), speaks(cited)}, []string{asked("1"), cited}},
		"what a tool of the API's did":           {[]llm.Part{thinks(thought), llm.Opaque{Native: *native(search)}, speaks(cited)}, []string{thought, search, cited}},
		"an item twice":                          {[]llm.Part{speaks(cited), speaks(cited)}, []string{cited, dropped(t, cited, "id")}},
		"another's reasoning":                    {[]llm.Part{llm.Reasoning{Text: "Hm.", Native: &llm.Native{Provider: "x", Data: json.RawMessage(thought)}}, asks("1")}, []string{asked("1")}},
		"a call of no tool's name": {[]llm.Part{llm.ToolCall{ID: "1", ProviderID: "p_1", Name: "functions.read/é"}, llm.ToolCall{ID: "2", ProviderID: "p_2", Name: ""}},
			[]string{strings.Replace(asked("1"), `"read"`, `"functions_read__"`, 1), strings.Replace(asked("2"), `"read"`, `"unnamed"`, 1)}},
		"media": {[]llm.Part{speaks(cited), llm.Media{MediaType: "image/png", URL: "https://example.com/a.png"}, asks("1")}, []string{cited,
			`{"content":[{"detail":"auto","image_url":"https://example.com/a.png","type":"input_image"}],"role":"user","type":"message"}`, asked("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			messages := []llm.Message{llm.UserText("a"), {Role: llm.RoleAssistant, Parts: test.parts}}
			var results llm.Message
			for _, c := range messages[1].ToolCalls() {
				results.Parts = append(results.Parts, llm.ToolResult{Call: c.ID, Name: c.Name, Output: json.RawMessage(`"ok"`)})
				test.want = append(test.want, answered(c.ID))
			}
			if len(results.Parts) > 0 {
				results.Role = llm.RoleTool
				messages = append(messages, results)
			}
			s := plays(t, completed)
			s.must(t, messages...)
			var got []string
			for _, item := range s.input(t)[1:] {
				got = append(got, string(item))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// dropped returns an object without a member, its others in the order of their
// names.
func dropped(t *testing.T, object, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, name)
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(members); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// What a reply holds goes back as it came, whatever it is.
func TestARoundTrip(t *testing.T) {
	space := strings.NewReplacer(`":`, `" : `, `,"`, ",\n\t\"") // as in a reply that isn't streamed
	spaced := `{"id":"fc_1","type":"function_call","status":"completed","call_id":"p_1","name":"read","arguments":"{\"a\":1}","namespace":"files"}`
	for _, whole := range []bool{false, true} {
		items := []string{thought, search, more, cited, spaced, `{"id":"mt_1","type":"time_travel_call","to":1955}`}
		var events []string
		for i, item := range items {
			events = append(events, added(i, item), ended(i, item))
		}
		s := plays(t, append(events, completed)...)
		if whole {
			s = answers(t, "application/json", space.Replace(`{"status":"completed","error":null,"output":[`+strings.Join(items, ",")+`]}`))
		}
		m, f, err := s.ask(t, openai.Options{Whole: whole})
		if err != nil || f.Reason != llm.StopToolCalls {
			t.Fatal(f, err)
		}
		m.Parts[4] = identified(m.Parts[4].(llm.ToolCall))
		stored, err := json.Marshal(m.Parts[5])
		if err != nil || !strings.Contains(string(stored), "time_travel_call") {
			t.Errorf("%s, %v", stored, err)
		}
		next := plays(t, completed)
		next.must(t, llm.UserText("a"), m, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "own", Name: "read", Output: json.RawMessage(`"ok"`)}}})
		got := next.input(t)[1:]
		for i, item := range items {
			if g := string(got[i]); strings.ReplaceAll(g, " ", "") != strings.ReplaceAll(item, " ", "") {
				t.Errorf("whole %v, output[%d]: got\n%s\nwant\n%s", whole, i, g, item)
			}
		}
	}
}

func identified(c llm.ToolCall) llm.ToolCall {
	c.ID = "own"
	return c
}

// A key of another organization's can't read the reasoning that the
// conversation holds. The conversation goes on without it.
func TestReasoningThatCantBeReadAnyMore(t *testing.T) {
	history := []llm.Message{llm.UserText("a"), {Role: llm.RoleAssistant, Parts: []llm.Part{
		thinks(thought), speaks(cited), llm.Opaque{Native: *native(search)}, asks("1"),
	}}, {Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "1", Name: "read", Output: json.RawMessage(`"ok"`)}}}}
	for body, again := range map[string]bool{
		`{"error":{"message":"The encrypted content c2Vh... could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}`:                   true,
		`{"error":{"message":"Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.","type":"invalid_request_error","param":"input","code":null}}`: true,
		`{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item.","type":"invalid_request_error","param":"input","code":null}}`:          true,
		`{"error":{"message":"Invalid 'input[0].name': string does not match pattern.","type":"invalid_request_error","param":"input[0].name","code":"invalid_value"}}`:                 false,
	} {
		for _, whole := range []bool{false, true} {
			var asks [][]byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				asks = append(asks, b)
				if len(asks) == 1 || !again {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					io.WriteString(w, body)
				} else if whole {
					w.Header().Set("Content-Type", "application/json")
					io.WriteString(w, `{"status":"completed","output":[]}`)
				} else {
					io.WriteString(w, "data: "+completed+"\n\n")
				}
			}))
			s := &script{url: server.URL}
			_, _, err := s.ask(t, openai.Options{Whole: whole}, history...)
			server.Close()
			if !again {
				if kind(err) != llm.ErrInvalid || len(asks) != 1 {
					t.Errorf("%d requests, %v", len(asks), err)
				}
				continue
			}
			if err != nil || len(asks) != 2 {
				t.Fatalf("%d requests, %v", len(asks), err)
			}
			s.request = asks[1]
			got, want := s.input(t)[1:], []string{dropped(t, cited, "id"), dropped(t, search, "id"), asked("1"), answered("1")}
			for i := range want {
				if len(got) != len(want) || string(got[i]) != want[i] {
					t.Fatalf("got %s, want %s", got, want)
				}
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	user := func(parts ...llm.Part) []llm.Message { return []llm.Message{{Role: llm.RoleUser, Parts: parts}} }
	s := plays(t, completed)
	m := s.model(t, openai.Options{})
	for want, req := range map[string]llm.Request{
		"0 messages": {},
		"1 messages": {Messages: user(llm.Unknown{})},
		"no role":    {Messages: []llm.Message{{Role: "system", Parts: []llm.Part{llm.Text{Text: "a"}}}}},
		"ToolCall doesn't belong in a message of role user":        {Messages: user(asks("1"))},
		"ToolResult doesn't belong in a message of role assistant": {Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolResult{}}}}},
		"Text doesn't belong in a message of role tool":            {Messages: []llm.Message{{Role: llm.RoleTool, Parts: []llm.Part{llm.Text{Text: "a"}}}}},
		"no JSON object":            {Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{speaks(`{"id":`)}}}},
		`object: "[]"`:              {Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Opaque{Native: *native(`[]`)}}}}},
		`object: ""`:                {Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Opaque{Native: *native(``)}}}}},
		"type audio/mpeg, which":    {Messages: user(llm.Media{MediaType: "audio/mpeg", Data: []byte("a")})},
		"neither bytes nor a URL":   {Messages: user(llm.Media{MediaType: "image/png"})},
		`"png", which is none`:      {Messages: user(llm.Media{MediaType: "png", Data: []byte("a")})},
		"Limits.OutputTokens is -1": {Messages: user(llm.Text{Text: "a"}), Limits: llm.Limits{OutputTokens: -1}},
		"none of Request.Tools":     {Messages: user(llm.Text{Text: "a"}), ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "x"}},
		"Request.Tools is empty":    {Messages: user(llm.Text{Text: "a"}), ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}},
		"ToolChoice.Mode is":        {Messages: user(llm.Text{Text: "a"}), ToolChoice: llm.ToolChoice{Mode: "maybe"}},
		"Request.Cache is":          {Messages: user(llm.Text{Text: "a"}), Cache: "forever"},
		`tool "t"`:                  {Messages: user(llm.Text{Text: "a"}), Tools: []llm.ToolDef{{Name: "t", Input: json.RawMessage(`{"type":"string"}`)}}},
		"letters, digits":           {Messages: user(llm.Text{Text: "a"}), Tools: []llm.ToolDef{{Name: "read.file", Input: json.RawMessage(`{}`)}}},
		`Format "f"`:                {Messages: user(llm.Text{Text: "a"}), ResponseFormat: llm.ResponseFormat{Name: "f", Schema: json.RawMessage(`[]`)}},
	} {
		_, _, err := llm.Collect(m.Generate(t.Context(), req))
		if kind(err) != llm.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if s.request != nil {
		t.Errorf("a request was made: %s", s.request)
	}
}
