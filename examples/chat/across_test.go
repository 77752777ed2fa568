package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
	"github.com/fermata-ai/fermata/provider/anthropic"
	"github.com/fermata-ai/fermata/provider/gemini"
	"github.com/fermata-ai/fermata/provider/openai"
)

// A session that is paused under one provider goes on under each other one, and back again. The replies are those that the providers'
// own tests have recorded.
func TestASessionGoesOnUnderAnotherProvider(t *testing.T) {
	t.Parallel()
	llmtest.Across(t, adapters(), nil)
}

// adapters are those of all providers.
func adapters() []llmtest.Provider {
	const replies = "../../provider/"
	return []llmtest.Provider{
		{
			Name: "anthropic", Replies: replies + "anthropic/testdata/replies", Calls: some(anthropicIDs),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(anthropic.New(anthropic.Options{Model: "claude-sonnet-5-5", APIKey: llmtest.APIKey, BaseURL: o.BaseURL, Client: o.Client}))(t)
			},
		}, {
			// A part belongs to the server that made it, so that the server needs a name that lasts.
			Name: "openai.chat/openrouter.ai", Replies: replies + "openai/testdata/openrouter/replies", Calls: some(chatIDs),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(openai.NewChat(openai.ChatOptions{
					Model: "acme/large", APIKey: llmtest.APIKey, BaseURL: "https://openrouter.ai/api/v1", Client: detour(t, o),
				}))(t)
			},
		}, {
			Name: "openai.responses", Replies: replies + "openai/testdata/responses/replies", Calls: some(responsesIDs),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(openai.NewResponses(openai.ResponsesOptions{Model: "gpt-5.6-terra", APIKey: llmtest.APIKey, BaseURL: o.BaseURL, Client: o.Client}))(t)
			},
		}, {
			Name: "gemini", Replies: replies + "gemini/testdata/replies", Calls: some(geminiIDs),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(gemini.New(gemini.Options{Model: "gemini-3.8-flash", APIKey: llmtest.APIKey, BaseURL: o.BaseURL, Client: o.Client}))(t)
			},
		},
	}
}

// opened is a model that must have been made.
func opened[M llm.Model](m M, err error) func(testing.TB) llm.Model {
	return func(t testing.TB) llm.Model {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// detour sends all requests to the suite's server.
func detour(t testing.TB, o llmtest.Options) *http.Client {
	t.Helper()
	to, err := url.Parse(o.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, ""
		return o.Client.Transport.RoundTrip(r)
	})}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// some reads ids where there must be some.
func some(ids func([]byte) (calls, results []string)) func([]byte) (calls, results []string) {
	return func(request []byte) (calls, results []string) {
		if calls, results = ids(request); len(calls) == 0 {
			return []string{"no call at all"}, nil
		}
		return calls, results
	}
}

// The ids of calls and of results, as they stand in a request to each of the providers.

func anthropicIDs(request []byte) (calls, results []string) {
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

func chatIDs(request []byte) (calls, results []string) {
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

func responsesIDs(request []byte) (calls, results []string) {
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

func geminiIDs(request []byte) (calls, results []string) {
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
