package openai

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
)

// chatAt is Chat Completions at a server of the given base URL, whose requests
// go to the suite's server in its place.
func chatAt(name, base, replies string, lacks map[string]string) llmtest.Provider {
	return llmtest.Provider{
		Name: name,
		New: func(t testing.TB, o llmtest.Options) llm.Model {
			c, err := NewChat(Options{Model: "gpt-5-mini", APIKey: llmtest.APIKey, BaseURL: base, Whole: o.Whole, Strict: o.Strict, Client: llmtest.Detour(t, o)})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Replies: replies,
		Calls:   llmtest.ChatCalls,
		Lists: func(request []byte) json.RawMessage {
			var r struct{ Tools json.RawMessage }
			_ = json.Unmarshal(request, &r)
			return r.Tools
		},
		Lacks: lacks,
	}
}

func atOpenAI() llmtest.Provider {
	p := chatAt("openai.chat", ownURL, "testdata/chat/replies", map[string]string{
		"reasoning": "Chat Completions at OpenAI tells nothing of the reasoning but the number of its tokens",
		"redacted":  "Chat Completions at OpenAI tells nothing of the reasoning but the number of its tokens",
	})
	if os.Getenv("OPENAI_API_KEY") != "" {
		p.Real = func(t testing.TB, whole bool) llm.Model {
			c, err := NewChat(Options{Model: cmp.Or(os.Getenv("FERMATA_OPENAI_MODEL"), "gpt-5-mini"), Effort: "low", Whole: whole})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	return p
}

func TestChat(t *testing.T) { llmtest.Run(t, atOpenAI()) }

// A compatible server, with reasoning that it wants back.
func TestChatOpenRouter(t *testing.T) {
	llmtest.Run(t, chatAt("openai.chat/openrouter.ai", "https://openrouter.ai/api/v1", "testdata/openrouter/replies", map[string]string{
		"cache_short": "a key for the cache is sent to those alone that are known to take it, or by Options.CacheKey",
		"cache_long":  "a key for the cache is sent to those alone that are known to take it, or by Options.CacheKey",
	}))
}

func TestChatAimock(t *testing.T) { llmtest.RunAimock(t, atOpenAI(), "") }

func TestChatReal(t *testing.T) { llmtest.RunReal(t, atOpenAI()) }
