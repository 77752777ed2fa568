package anthropic_test

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
	"github.com/fermata-ai/fermata/provider/anthropic"
)

func suite() llmtest.Provider {
	return llmtest.Provider{
		Name:    "anthropic",
		Replies: "testdata/replies",
		New: func(t testing.TB, o llmtest.Options) llm.Model {
			return made(t, anthropic.Options{
				Model: "claude-opus-5-5", APIKey: llmtest.APIKey, BaseURL: o.BaseURL, Origin: "api.anthropic.com", Client: o.Client, Whole: o.Whole, Strict: o.Strict,
			})
		},
		Calls: llmtest.AnthropicCalls,
		Lists: func(request []byte) json.RawMessage {
			var r struct{ Tools json.RawMessage }
			_ = json.Unmarshal(request, &r)
			return r.Tools
		},
		Lacks: map[string]string{"fenced": "the API writes a call's input as JSON"},
		Real: func(t testing.TB, whole bool) llm.Model {
			if os.Getenv("ANTHROPIC_API_KEY") == "" {
				return nil
			}
			return made(t, anthropic.Options{Model: cmp.Or(os.Getenv("FERMATA_ANTHROPIC_MODEL"), "claude-haiku-5-5"), Whole: whole})
		},
	}
}

func made(t testing.TB, o anthropic.Options) llm.Model {
	t.Helper()
	m, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSuite(t *testing.T) { llmtest.Run(t, suite()) }

func TestAimock(t *testing.T) { llmtest.RunAimock(t, suite(), "") }

func TestReal(t *testing.T) { llmtest.RunReal(t, suite()) }
