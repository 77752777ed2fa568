package openai_test

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// TestEditedTextIsWhatIsSent: a layer that edits the text of an old message, to
// leave out a secret say, keeps its word: the native form says what the model
// wrote.
func TestEditedTextIsWhatIsSent(t *testing.T) {
	s := plays(t,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"The password is hunter2","annotations":[]}]}}`,
		`{"type":"response.completed","response":{"status":"completed","output":[]}}`)
	msg, _, err := s.ask(t, openai.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := msg.Parts[0].(llm.Text)
	text.Text = strings.ReplaceAll(text.Text, "hunter2", "***")
	if _, _, err := s.ask(t, openai.Options{}, llm.UserText("a"), llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{text}}, llm.UserText("b")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(s.request), "hunter2") {
		t.Errorf("the request: %s", s.request)
	}
}

// TestUnknownPartOfResults: what a later version stored beside results is
// skipped, as by every other provider.
func TestUnknownPartOfResults(t *testing.T) {
	s := plays(t, `{"type":"response.completed","response":{"status":"completed","output":[]}}`)
	_, _, err := s.ask(t, openai.Options{}, llm.UserText("a"),
		llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "f", Arguments: []byte(`{}`)}}},
		llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "c", Name: "f", Output: []byte(`1`)}, llm.Unknown{Type: "note", Raw: []byte(`{"type":"note"}`)}}})
	if err != nil {
		t.Error(err)
	}
}
