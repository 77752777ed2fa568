package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// What a server encrypted goes back to that server alone.
func TestReasoningGoesBackToItsOrigin(t *testing.T) {
	thought := func(by string) llm.Part {
		return llm.Reasoning{Native: &llm.Native{Provider: by, Data: fmt.Appendf(nil, `{"type":"reasoning","summary":[],"encrypted_content":"of %s."}`, by)}}
	}
	req := llm.Request{Messages: []llm.Message{llm.UserText("Hello"), {Role: llm.RoleAssistant, Parts: []llm.Part{
		thought("openai.responses"), thought("openai.responses/compatible.example"), thought("openai.responses/elsewhere.example"), llm.Text{Text: "Hi"},
	}}, llm.UserText("And?")}}
	for origin, name := range map[string]string{"": "openai.responses", "compatible.example": "openai.responses/compatible.example"} {
		body := string(sent(t, openai.Options{Model: "m", Origin: origin}, req)["input"])
		if n := strings.Count(body, "of openai"); n != 1 || !strings.Contains(body, "of "+name+".") {
			t.Errorf("%d thoughts were sent to %q: %s", n, origin, body)
		}
	}
}
