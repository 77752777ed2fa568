package gemini

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// TestSignedCallWithoutName: the API refuses a call without a name, and a
// result by another name than its call's.
func TestSignedCallWithoutName(t *testing.T) {
	s := serve(t, stream(says("STOP", `{"functionCall":{"id":"c1","args":{}},"thoughtSignature":"c2ln"}`)))
	msg, _, err := s.ask(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := msg.Parts[0].(llm.ToolCall)
	c.ID, c.Name = "call_1", "invalid_" // as the runner has it
	msg.Parts[0] = c
	_, _, err = s.ask(t, Options{}, llm.UserText("a"), msg, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "call_1", Name: "invalid_", Output: []byte(`"x"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.contents(t); strings.Count(got, `"name":`) != 2 {
		t.Error(got)
	}
}

// TestEditedArgumentsAreWhatIsSent: a layer that edits old messages, to leave
// out a secret say, keeps its word.
func TestEditedPartsAreWhatIsSent(t *testing.T) {
	s := serve(t, stream(says("STOP", `{"text":"It is hunter2","thoughtSignature":"c2ln"}`, `{"functionCall":{"name":"f","args":{"p":"hunter2"}},"thoughtSignature":"c2ln"}`)))
	msg, _, err := s.ask(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range msg.Parts {
		switch p := p.(type) {
		case llm.Text:
			p.Text = "It is ***"
			msg.Parts[i] = p
		case llm.ToolCall:
			p.ID, p.Arguments = "call_1", []byte(`{"p":"***"}`)
			msg.Parts[i] = p
		}
	}
	_, _, err = s.ask(t, Options{}, llm.UserText("a"), msg, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "call_1", Name: "f", Output: []byte(`"x"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.contents(t); strings.Contains(got, "hunter2") || !strings.Contains(got, `"c2ln"`) {
		t.Error(got)
	}
}

// TestDataURLInHistory: another provider's model drew it, or the user sent it
// while another provider answered.
func TestDataURLInHistory(t *testing.T) {
	s := serve(t, stream(says("STOP", `{"text":"ok"}`)))
	_, _, err := s.ask(t, Options{}, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text{Text: "a"}, llm.Media{MediaType: "image/png", URL: "data:image/png;base64,aGk="}}})
	if err != nil {
		t.Error(err)
	}
}

// TestTypesThatGeminiRefuses: one such in the history makes the API refuse
// every request.
func TestTypesThatGeminiRefuses(t *testing.T) {
	s := serve(t, stream(says("STOP", `{"text":"ok"}`)))
	for typ, want := range map[string]string{
		"image/jpg": `"mimeType":"image/jpeg"`, "image/gif": "can't be shown", "image/svg+xml": "can't be shown", "png": "can't be shown",
		"application/json; charset=utf-8": `"mimeType":"text/plain"`, "image/png": `"mimeType":"image/png"`, "video/mp4": `"mimeType":"video/mp4"`,
	} {
		for _, model := range []string{"gemini-2.5-flash", "gemini-3-flash"} {
			_, _, err := s.ask(t, Options{Model: model}, llm.UserText("a"), llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "f", Arguments: []byte(`{}`)}}},
				llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "c", Name: "f", Output: []byte(`1`), Media: []llm.Media{{MediaType: typ, Data: []byte("{}")}}}}})
			if got := s.contents(t); err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v, %s", typ, err, got)
			}
		}
	}
}
