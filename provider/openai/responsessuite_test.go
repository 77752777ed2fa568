package openai_test

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
	"github.com/fermata-ai/fermata/provider/openai"
)

var responsesProvider = llmtest.Provider{
	Name:    "openai.responses",
	Replies: "testdata/responses/replies",
	New: func(t testing.TB, o llmtest.Options) llm.Model {
		m, err := openai.NewResponses(openai.Options{
			Model: "gpt-5-mini", APIKey: llmtest.APIKey, BaseURL: o.BaseURL, Origin: "api.openai.com", Client: o.Client, Whole: o.Whole, Strict: o.Strict,
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	},
	Calls: llmtest.ResponsesCalls,
	Lists: func(request []byte) json.RawMessage {
		var body struct{ Tools json.RawMessage }
		_ = json.Unmarshal(request, &body)
		return body.Tools
	},
}

func TestResponsesAimock(t *testing.T) { llmtest.RunAimock(t, responsesProvider, "/v1") }

func TestResponsesReal(t *testing.T) {
	p := responsesProvider
	p.Real = func(t testing.TB, whole bool) llm.Model {
		key := os.Getenv("OPENAI_API_KEY")
		if key == "" {
			return nil
		}
		m, err := openai.NewResponses(openai.Options{Model: cmp.Or(os.Getenv("FERMATA_OPENAI_MODEL"), "gpt-5-mini"), Responses: openai.ResponsesOptions{Summary: "auto"}, Whole: whole})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	llmtest.RunReal(t, p)
}

func TestResponsesSuite(t *testing.T) {
	llmtest.Run(t, responsesProvider)
}
