package openai_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// A model of a server that speaks Chat Completions, such as Ollama, vLLM or
// llama.cpp. At OpenAI itself, BaseURL is left out.
func ExampleNewChat() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"It is cold."}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}

data: [DONE]

`)
	}))
	defer server.Close()

	model, err := openai.NewChat(openai.Options{Model: "qwen3:8b", BaseURL: server.URL + "/v1", Client: server.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	message, finish, err := llm.Collect(model.Generate(context.Background(), llm.Request{
		System:   "Answer in one sentence.",
		Messages: []llm.Message{llm.UserText("How is the weather in Oslo?")},
	}))
	fmt.Println(message.Text(), finish.Reason, finish.Usage.Total(), err)
	// Output: It is cold. end 13 <nil>
}
