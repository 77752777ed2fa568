package llmtest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
)

// AnthropicCalls is [Provider].Calls for the Messages API.
func AnthropicCalls(request []byte) (calls, results []string) {
	var r struct {
		Messages []struct {
			Content []struct {
				Type, ID  string
				ToolUseID string `json:"tool_use_id"`
			}
		}
	}
	_ = json.Unmarshal(request, &r)
	for _, m := range r.Messages {
		for _, b := range m.Content {
			switch b.Type {
			case "tool_use":
				calls = append(calls, b.ID)
			case "tool_result":
				results = append(results, b.ToolUseID)
			}
		}
	}
	return calls, results
}

// ChatCalls is [Provider].Calls for Chat Completions.
func ChatCalls(request []byte) (calls, results []string) {
	var r struct {
		Messages []struct {
			Role       string
			ToolCallID string                `json:"tool_call_id"`
			ToolCalls  []struct{ ID string } `json:"tool_calls"`
		}
	}
	_ = json.Unmarshal(request, &r)
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			calls = append(calls, c.ID)
		}
		if m.Role == "tool" {
			results = append(results, m.ToolCallID)
		}
	}
	return calls, results
}

// ResponsesCalls is [Provider].Calls for the Responses API.
func ResponsesCalls(request []byte) (calls, results []string) {
	var r struct {
		Input []struct {
			Type string
			Call string `json:"call_id"`
		}
	}
	_ = json.Unmarshal(request, &r)
	for _, item := range r.Input {
		switch item.Type {
		case "function_call":
			calls = append(calls, item.Call)
		case "function_call_output":
			results = append(results, item.Call)
		}
	}
	return calls, results
}

// GeminiCalls is [Provider].Calls for the Gemini API: the ids of calls, or the
// names of those without.
func GeminiCalls(request []byte) (calls, results []string) {
	type named struct{ ID, Name string }
	name := func(n named) string {
		if n.ID != "" {
			return n.ID
		}
		return n.Name
	}
	var r struct {
		Contents []struct {
			Parts []struct{ FunctionCall, FunctionResponse *named }
		}
	}
	_ = json.Unmarshal(request, &r)
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				calls = append(calls, name(*p.FunctionCall))
			}
			if p.FunctionResponse != nil {
				results = append(results, name(*p.FunctionResponse))
			}
		}
	}
	return calls, results
}

// Detour returns a client whose requests all go to the suite's server, for an
// adapter that has to believe that it talks to another one.
func Detour(t testing.TB, o Options) *http.Client {
	t.Helper()
	to, err := url.Parse(o.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: detour{to, o.Client.Transport}}
}

type detour struct {
	to   *url.URL
	then http.RoundTripper
}

func (d detour) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = d.to.Scheme, d.to.Host, ""
	return d.then.RoundTrip(r)
}
