package openai

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
)

// Neither the options, nor what the SDK takes out of the environment, is told.
func TestNothingTellsAKey(t *testing.T) {
	const key, custom = "sk-in-options", "tok-in-environment"
	s := newChatServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(r.Header.Get("Authorization") + " and " + r.Header.Get("X-Gateway-Key") + " are unknown"))
	})
	t.Setenv("OPENAI_BASE_URL", s.URL)
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Team: ops\nX-Gateway-Key: "+custom)
	chat, err := NewChat(Options{Model: "m", APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	responses, err := NewResponses(Options{Model: "m", APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	base := "http://ada:" + key + "@localhost"
	printed := []any{
		Options{Model: "m", APIKey: key, BaseURL: base}, &Options{APIKey: key}, struct{ Of Options }{Options{APIKey: key, BaseURL: base}},
		chat, *chat, responses, *responses,
	}
	for _, m := range []llm.Model{chat, responses} {
		_, _, err := llm.Collect(m.Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText("x")}}))
		if kind(err) != llm.ErrAuth || strings.Count(err.Error(), "(the key)") != 2 {
			t.Errorf("%T: %v", m, err)
		}
		printed = append(printed, err)
	}
	for _, v := range printed {
		for how, text := range llmtest.Printed(v) {
			if strings.Contains(text, key) || strings.Contains(text, custom) {
				t.Errorf("%s of a %T: %s", how, v, text)
			}
		}
	}
}
