package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// TestSchemasThatOpenAIRefuses: what OpenAI answers with
// invalid_function_parameters, for the whole request, is refused by CheckTools,
// or told in a way that it takes.
func TestSchemasThatOpenAIRefuses(t *testing.T) {
	for _, strict := range []bool{false, true} {
		chat, err := NewChat(Options{Model: "m", APIKey: "sk-test", Strict: strict})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := NewResponses(Options{Model: "m", APIKey: "sk-test", Strict: strict})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []llm.ToolChecker{chat, resp} {
			for _, key := range []string{"anyOf", "oneOf", "allOf", "enum", "not"} {
				value := `[{"properties":{"b":{"type":"string"}}}]`
				if key == "not" {
					value = `{"required":["b"]}`
				}
				schema := `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"` + key + `":` + value + `}`
				err := m.CheckTools([]llm.ToolDef{{Name: "t", Input: json.RawMessage(schema)}})
				told := strict && (key == "allOf" || key == "not") // in the description
				if (err == nil) != told {
					t.Errorf("%T strict %v: %s at the root: %v", m, strict, key, err)
				}
			}
		}
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"array"}}}`,
		`{"type":"object","properties":{"a":{"type":["array","null"]}}}`,
		`{"type":"object","properties":{"a":{"type":["string","array"]}}}`,
	} {
		got, err := told.Convert(json.RawMessage(schema))
		if err != nil || !strings.Contains(string(got), `"items"`) {
			t.Errorf("array schema missing items: %s, %v", got, err)
		}
	}
}

// TestStrictRefusesOpenObjectsThatTakeNull: OpenAI wants additionalProperties
// in each of them, and items.
func TestStrictRefusesOpenObjectsThatTakeNull(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":["object","null"]}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":["array","null"]}},"required":["a"]}`,
	} {
		if got, err := held.Convert(json.RawMessage(schema)); err == nil {
			t.Errorf("%s became %s", schema, got)
		}
	}
}

// TestModelsShowNoKey: a model in a log shows no key.
func TestModelsShowNoKey(t *testing.T) {
	const key = "sk-very-secret-key-1234"
	chat, err := NewChat(Options{Model: "m", APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := NewResponses(Options{Model: "m", APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []any{chat, resp} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if s := fmt.Sprintf(verb, m); strings.Contains(s, key) {
				t.Errorf("%T with %s shows the key", m, verb)
			}
		}
	}
}

// TestOrphanReasoningOfChat: a message that the limit cut off while the model
// thought says nothing. An empty assistant's message is refused by many
// servers.
func TestOrphanReasoningOfChat(t *testing.T) {
	s := newChatServer(t, pieces("length", `{"reasoning_content":"Hm"}`))
	m := s.model(t, Options{})
	msg, _, err := ask(t, m, llm.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(t, m, llm.Request{Messages: []llm.Message{llm.UserText("a"), msg, llm.UserText("b")}}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.last(), `"role":"assistant"`) {
		t.Errorf("an empty message of the assistant's: %s", s.last())
	}
}

// TestUnknownFinishRunsNoCutCall: Mistral's model_length is a limit, too, and
// vLLM's abort breaks off anywhere.
func TestUnknownFinishRunsNoCutCall(t *testing.T) {
	for _, finish := range []string{"model_length", "abort", "max_tokens"} {
		s := newChatServer(t, pieces(finish, `{"tool_calls":[{"index":0,"id":"c1","function":{"name":"delete_all","arguments":""}}]}`))
		msg, fin, err := ask(t, s.model(t, Options{}), llm.Request{})
		if err == nil && calls(msg) == "c1 delete_all {}" {
			t.Errorf("%s: %+v %s", finish, fin, calls(msg))
		}
	}
}

// A server that lets only the assistant speak after results has a message of
// the assistant's before whatever else follows them.
func TestResultsAreBridged(t *testing.T) {
	called := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: "call_1", Name: "f", Arguments: []byte(`{}`)}}}
	result := llm.ToolResult{Call: "call_1", Name: "f", Output: []byte(`1`)}
	notice := llm.Notice{Handle: "build", State: "stopped"}
	picture := result
	picture.Media = []llm.Media{{MediaType: "image/png", URL: "https://example.com/a.png"}}
	tools := func(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleTool, Parts: parts} }
	for name, c := range map[string]struct {
		o       Options
		bridged bool
	}{
		"Mistral":      {Options{Model: "m", BaseURL: "https://api.mistral.ai/v1", APIKey: "k"}, true},
		"by an option": {Options{Model: "m", BaseURL: "https://api.example/v1", Chat: ChatOptions{Bridge: true}}, true},
		"others":       {Options{Model: "m", BaseURL: "https://api.example/v1"}, false},
	} {
		m, err := NewChat(c.o)
		if err != nil {
			t.Fatal(err)
		}
		for what, s := range map[string]struct {
			messages []llm.Message
			roles    string // with a bridge
		}{
			"a notice":         {[]llm.Message{called, tools(result, notice)}, "user assistant tool assistant user"},
			"media":            {[]llm.Message{called, tools(picture)}, "user assistant tool assistant user"},
			"both":             {[]llm.Message{called, tools(picture, notice)}, "user assistant tool assistant user"},
			"the user":         {[]llm.Message{called, tools(result), llm.UserText("b")}, "user assistant tool assistant user"},
			"the assistant":    {[]llm.Message{called, tools(result), llm.AssistantText("b")}, "user assistant tool assistant"},
			"results in two":   {[]llm.Message{called, tools(result, notice), tools(result)}, "user assistant tool tool assistant user"},
			"a notice alone":   {[]llm.Message{llm.AssistantText("b"), tools(notice), llm.AssistantText("c")}, "user assistant user assistant"},
			"notices in a row": {[]llm.Message{llm.AssistantText("b"), tools(notice), tools(notice)}, "user assistant user"},
		} {
			p, err := m.params(llm.Request{Messages: append([]llm.Message{llm.UserText("a")}, s.messages...)})
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(p.Messages)
			if err != nil {
				t.Fatal(err)
			}
			var sent []struct{ Role string }
			if err := json.Unmarshal(b, &sent); err != nil {
				t.Fatal(err)
			}
			var roles []string
			for _, m := range sent {
				roles = append(roles, m.Role)
			}
			want := s.roles
			if !c.bridged {
				want = strings.Replace(want, "tool assistant user", "tool user", 1)
			}
			if got := strings.Join(roles, " "); got != want {
				t.Errorf("%s, %s: %s, want %s", name, what, got, want)
			}
		}
	}
}

// TestMistralIDs: Mistral takes ids of nine letters and digits, and refuses
// every request of a session that another provider began.
func TestMistralIDs(t *testing.T) {
	c, err := NewChat(Options{Model: "m", BaseURL: "https://api.mistral.ai/v1", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range []string{"call_PTLP8xhu3uwZk4l3nlnrrJha", "tool:0", "x", "D681PevKs", ""} {
		p, err := c.params(llm.Request{Messages: []llm.Message{llm.UserText("a"),
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: "call_1", ProviderID: id, Name: "f", Arguments: []byte(`{}`)}, llm.ToolCall{ID: "call_2", ProviderID: id, Name: "f", Arguments: []byte(`{}`)}}}}})
		if err != nil {
			t.Fatal(err)
		}
		calls := p.Messages[1].OfAssistant.ToolCalls
		a, b := calls[0].OfFunction.ID, calls[1].OfFunction.ID
		if len(a) != 9 || len(b) != 9 || a == b || strings.ContainsAny(a+b, "_-:.") || id == "D681PevKs" && a != id {
			t.Errorf("%q: %q and %q", id, a, b)
		}
		seen[a] = true
	}
}
