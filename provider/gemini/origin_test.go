package gemini

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// What a server signed goes back to that server alone.
func TestSignaturesGoBackToTheirOrigin(t *testing.T) {
	said := func(by string) llm.Part {
		return llm.Text{Text: "Hi", Native: &llm.Native{Provider: by, Data: fmt.Appendf(nil, `{"text":"Hi","thoughtSignature":"of %s."}`, by)}}
	}
	history := []llm.Message{
		llm.UserText("Hello"), {Role: llm.RoleAssistant, Parts: []llm.Part{said("gemini"), said("gemini/compatible.example"), said("gemini/elsewhere.example")}}, llm.UserText("And?"),
	}
	for origin, name := range map[string]string{"": "gemini", "compatible.example": "gemini/compatible.example"} {
		s := serve(t, stream(says("STOP", `{"text":"a","thoughtSignature":"x"}`)))
		m, _, err := s.ask(t, Options{Origin: origin}, history...)
		if err != nil {
			t.Fatal(err)
		}
		body := string(s.body[0])
		if n := strings.Count(body, "of gemini"); n != 1 || !strings.Contains(body, "of "+name+".") {
			t.Errorf("%d signatures were sent to %q: %s", n, origin, body)
		}
		if p, ok := m.Parts[0].(llm.Text); !ok || p.Native == nil || p.Native.Provider != name {
			t.Errorf("%q made %v", origin, m.Parts)
		}
	}
}
