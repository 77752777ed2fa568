package openai_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// recorded is a transport that answers with a reply from a file, in place of
// OpenAI.
type recorded string

func (r recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	f, err := os.Open(string(r))
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(f), req)
}

// A model that thinks before it calls a tool. What it thought goes back with
// the next request, as OpenAI encrypted it.
func ExampleNewResponses() {
	model, err := openai.NewResponses(openai.Options{
		Model:     "gpt-5-mini",
		APIKey:    "sk-example", // or OPENAI_API_KEY
		BaseURL:   "https://api.openai.com/v1",
		Effort:    "low",
		Responses: openai.ResponsesOptions{Summary: "auto"},
		// For this example.
		Client: &http.Client{Transport: recorded("testdata/responses/replies/reasoning.stream.http")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	message, finish, err := llm.Collect(model.Generate(context.Background(), llm.Request{
		System:   "Be brief.",
		Messages: []llm.Message{llm.UserText("What is the weather in Oslo?")},
		Tools: []llm.ToolDef{{
			Name: "get_weather", Input: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range message.Parts {
		switch p := part.(type) {
		case llm.Reasoning:
			fmt.Println("thinks:", p.Text)
		case llm.ToolCall:
			fmt.Println("calls:", p.Name, string(p.Arguments))
		}
	}
	fmt.Println("stops:", finish.Reason)
	// Output:
	// thinks: Look it up.
	// calls: get_weather {"city":"Oslo"}
	// stops: tool_calls
}
