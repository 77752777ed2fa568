package gemini

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
)

func suite() llmtest.Provider {
	const pieces = "a call's arguments are JSON within the reply's JSON: they come whole, or the reply is broken"
	return llmtest.Provider{
		Name:    provider,
		Replies: "testdata/replies",
		New: func(t testing.TB, o llmtest.Options) llm.Model {
			m, err := New(Options{Model: "gemini-3-flash-preview", APIKey: llmtest.APIKey, BaseURL: o.BaseURL, Origin: domain, Client: o.Client, Whole: o.Whole})
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
		Calls: llmtest.GeminiCalls,
		Lists: func(request []byte) json.RawMessage { return membersOf(request)["tools"] },
		Lacks: map[string]string{
			"cache_short":      "the API caches by itself, and can't be told to for one request",
			"cache_long":       "the API caches by itself, and can't be told to for one request",
			"schemas_strict":   "the API has no strict mode for tools",
			"arguments":        pieces,
			"fenced":           pieces,
			"broken_arguments": pieces,
			"cut_arguments":    pieces,
			"redacted":         "Gemini signs the parts of its answer, and has no parts for thoughts that it hides: see TestSignedTextKeepsItsPlace",
		},
		Real: func(t testing.TB, whole bool) llm.Model {
			if cmp.Or(os.Getenv("GEMINI_API_KEY"), os.Getenv("GOOGLE_API_KEY")) == "" {
				return nil
			}
			m, err := New(Options{Model: cmp.Or(os.Getenv("FERMATA_GEMINI_MODEL"), "gemini-3.8-flash"), Whole: whole})
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
	}
}

func TestSuite(t *testing.T)  { llmtest.Run(t, suite()) }
func TestAimock(t *testing.T) { llmtest.RunAimock(t, suite(), "") }
func TestReal(t *testing.T)   { llmtest.RunReal(t, suite()) }
