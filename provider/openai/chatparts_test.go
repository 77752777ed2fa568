package openai

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// What a model thinks within the list content, as Mistral has it, goes back
// there, in its place. So do parts of kinds that aren't known.
func TestPartsOfTheContentGoBack(t *testing.T) {
	const reference = `{"type":"reference","reference_ids":[1,2]}`
	s := newChatServer(t, pieces("tool_calls",
		`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Lo"}]}]}`,
		`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ok"},{"type":"reference","reference_ids":[3]}],"signature":"s+/="}]}`,
		`{"content":"Do"}`, `{"content":[{"type":"text","text":"ne"},`+reference+`,null,{"type":"text","text":"."}]}`,
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`))
	m, _, err := ask(t, s.model(t, Options{}), llm.Request{})
	if err != nil || m.Text() != "Done." || len(m.Parts) != 5 {
		t.Fatalf("%v\n%s", err, parts(m))
	}
	again := func(m llm.Message, o Options) string {
		t.Helper()
		r := llm.Request{Messages: []llm.Message{llm.UserText("hello"), m}}
		if len(m.ToolCalls()) > 0 {
			r.Messages = append(r.Messages, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Output: []byte(`1`)}}})
		}
		if _, _, err := ask(t, s.model(t, o), r); err != nil {
			t.Fatal(err)
		}
		return s.last()
	}
	thinking := `{"signature":"s+/=","thinking":[{"text":"Look","type":"text"},{"type":"reference","reference_ids":[3]}],"type":"thinking"}`
	want := `"content":[` + thinking + `,{"type":"text","text":"Done"},` + reference + `,{"type":"text","text":"."}]`
	if got := again(m, Options{}); !strings.Contains(got, want) || strings.Contains(got, `"reasoning"`) {
		t.Errorf("the next request lacks\n%s:\n%s", want, got)
	}
	if got := again(llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{m.Parts[0], m.Parts[4]}}, Options{}); !strings.Contains(got, `"content":[`+thinking+`]`) {
		t.Errorf("a thought before a call: %s", got)
	}
	if got := again(llm.Message{Role: llm.RoleAssistant, Parts: m.Parts[:1]}, Options{}); strings.Contains(got, "thinking") {
		t.Errorf("a thought alone makes a message: %s", got)
	}
	if got := again(llm.Message{Role: llm.RoleAssistant, Parts: m.Parts[2:3]}, Options{}); !strings.Contains(got, `"content":[`+reference+`]`) {
		t.Errorf("a part alone makes none: %s", got)
	}
	if got := again(m, Options{Origin: "elsewhere.example"}); strings.Contains(got, "thinking") || strings.Contains(got, "reference") || !strings.Contains(got, `"content":"Done\n\n."`) {
		t.Errorf("another server was sent %s", got)
	}
}

// An earlier version stored Mistral's reasoning as a member that Mistral
// refuses: it is left out there.
func TestReasoningThatMistralRefusesIsLeftOut(t *testing.T) {
	for base, want := range map[string]bool{"https://api.mistral.ai/v1": false, "https://api.example/v1": true} {
		var r recorder
		c, err := NewChat(Options{Model: "m", BaseURL: base, Client: r.client()})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = ask(t, c, llm.Request{Messages: []llm.Message{llm.UserText("a"), {Role: llm.RoleAssistant, Parts: []llm.Part{
			llm.Reasoning{Text: "Look", Native: &llm.Native{Provider: c.name, Data: []byte(`{"reasoning":"Look"}`)}}, llm.Text{Text: "b"}}}, llm.UserText("c")}})
		if got := strings.Contains(r.body, "Look"); got != want {
			t.Errorf("%s: %s", base, r.body)
		}
	}
}

// The form of ids is the server's, by an option where it isn't known.
func TestFormOfCallIDs(t *testing.T) {
	for _, c := range []struct {
		base string
		form wire.Form
		sent string
		want string
	}{
		{"https://api.mistral.ai/v1", wire.Form{}, "call_0123456789abc", "456789abc"},
		{"http://localhost/v1", wire.Form{}, "functions.f:0", "functions.f:0"},
		{"http://localhost/v1", wire.Form{Min: 9, Max: 9}, "functions.f:0", "own120000"},
		{"http://localhost/v1", wire.Form{Min: 9, Max: 9}, "aB3dE6gH9", "aB3dE6gH9"},
		{"https://me.openai.azure.com/openai/v1", wire.Form{}, "functions.f:0", "own12"},
		{"https://me.openai.azure.com/openai/v1", wire.Form{Max: 99, Also: ".:"}, "functions.f:0", "functions.f:0"},
	} {
		var r recorder
		m, err := NewChat(Options{Model: "m", APIKey: "k", BaseURL: c.base, Chat: ChatOptions{CallIDs: c.form}, Client: r.client()})
		if err != nil {
			t.Fatal(err)
		}
		own := "own12"
		if c.want == "456789abc" {
			own = c.sent
		}
		_, _, _ = ask(t, m, llm.Request{Messages: []llm.Message{llm.UserText("a"),
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: own, ProviderID: c.sent, Name: "f", Arguments: []byte(`{}`)}}},
			{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: own, Name: "f", Output: []byte(`1`)}}}}})
		if !strings.Contains(r.body, `"id":"`+c.want+`"`) || !strings.Contains(r.body, `"tool_call_id":"`+c.want+`"`) {
			t.Errorf("%s, %v: %q was sent as %s", c.base, c.form, c.sent, r.body)
		}
	}
}
