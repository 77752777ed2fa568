package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// What a server encrypted goes back to that server alone, in one request; what
// was kept before servers were told apart goes to Anthropic.
func TestThinkingGoesBackToItsOrigin(t *testing.T) {
	thought := func(by string) llm.Part {
		return llm.Reasoning{Native: &llm.Native{Provider: by, Data: fmt.Appendf(nil, `{"type":"thinking","thinking":"Hm","signature":"of %s."}`, by)}}
	}
	said := []llm.Part{thought("anthropic"), thought("anthropic/compatible.example"), thought("anthropic/elsewhere.example"), llm.Text{Text: "Hi"}}
	req := llm.Request{Messages: []llm.Message{llm.UserText("Hello"), {Role: llm.RoleAssistant, Parts: said}, llm.UserText("And?")}}
	for origin, name := range map[string]string{"": "anthropic", "compatible.example": "anthropic/compatible.example"} {
		s := &service{body: events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x"}}`,
			`{"type":"content_block_stop","index":0}`, endTurn, stop)}
		m, _ := collect(t, s.model(t, Options{Origin: origin}), req)
		if n := strings.Count(s.bodies[0], "of anthropic"); n != 1 || len(s.bodies) != 1 || !strings.Contains(s.bodies[0], "of "+name+".") {
			t.Errorf("%d thoughts were sent to %q: %s", n, origin, s.bodies)
		}
		if r, ok := m.Parts[0].(llm.Reasoning); !ok || r.Native == nil || r.Native.Provider != name {
			t.Errorf("%q made %v", origin, m.Parts)
		}
	}
	for base, name := range map[string]string{"https://api.anthropic.com": "anthropic", "http://localhost:4000": "anthropic/localhost:4000"} {
		if m, err := New(Options{Model: "m", APIKey: "k", BaseURL: base}); err != nil || m.origin.Name() != name {
			t.Errorf("%s: %v, %v", base, m.origin.Name(), err)
		}
	}
	if _, err := New(Options{Model: "m", APIKey: "k", Origin: "https://api.anthropic.com"}); err == nil || !strings.Contains(err.Error(), "Options.Origin") {
		t.Error(err)
	}
}
