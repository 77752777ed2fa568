package main

import (
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
	"github.com/fermata-ai/fermata/provider/anthropic"
	"github.com/fermata-ai/fermata/provider/gemini"
	"github.com/fermata-ai/fermata/provider/openai"
)

// A session that is paused under one provider goes on under each other one, and
// back again. The replies are those that the providers' own tests have
// recorded.
func TestASessionGoesOnUnderAnotherProvider(t *testing.T) {
	t.Parallel()
	llmtest.Across(t, adapters(), nil)
}

// adapters returns those of all providers.
func adapters() []llmtest.Provider {
	const replies = "../../provider/"
	return []llmtest.Provider{
		{
			Name: "anthropic", Replies: replies + "anthropic/testdata/replies",
			Calls: some(llmtest.AnthropicCalls),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(
					anthropic.New(
						anthropic.Options{Model: "claude-sonnet-5-5", APIKey: llmtest.APIKey,
							BaseURL: o.BaseURL, Origin: "api.anthropic.com", Client: o.Client}))(t)
			},
		}, {
			// A part belongs to the server that made it, so that the server
			// needs a name that lasts.
			Name:    "openai.chat/openrouter.ai",
			Replies: replies + "openai/testdata/openrouter/replies", Calls: some(llmtest.ChatCalls),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(openai.NewChat(openai.Options{
					Model: "acme/large", APIKey: llmtest.APIKey,
					BaseURL: "https://openrouter.ai/api/v1", Client: llmtest.Detour(t, o),
				}))(t)
			},
		}, {
			Name: "openai.responses", Replies: replies + "openai/testdata/responses/replies",
			Calls: some(llmtest.ResponsesCalls),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(
					openai.NewResponses(
						openai.Options{Model: "gpt-5.6-terra", APIKey: llmtest.APIKey,
							BaseURL: o.BaseURL, Origin: "api.openai.com", Client: o.Client}))(t)
			},
		}, {
			Name: "gemini", Replies: replies + "gemini/testdata/replies",
			Calls: some(llmtest.GeminiCalls),
			New: func(t testing.TB, o llmtest.Options) llm.Model {
				return opened(
					gemini.New(gemini.Options{Model: "gemini-3.8-flash", APIKey: llmtest.APIKey,
						BaseURL: o.BaseURL, Origin: "generativelanguage.googleapis.com",
						Client: o.Client}))(t)
			},
		},
	}
}

// opened returns a function that returns m, or fails the test if err is set.
func opened[M llm.Model](m M, err error) func(testing.TB) llm.Model {
	return func(t testing.TB) llm.Model {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// some returns a function that reads ids, and returns a word in their place
// where there are none: two empty lists would look alike.
func some(ids func([]byte) (calls, results []string)) func([]byte) (calls, results []string) {
	return func(request []byte) (calls, results []string) {
		if calls, results = ids(request); len(calls) == 0 {
			return []string{"no call at all"}, nil
		}
		return calls, results
	}
}
