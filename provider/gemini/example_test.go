package gemini_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/gemini"
)

// A model that answers in a stream. Here, a server stands in for the service:
// leave BaseURL and APIKey out to ask Gemini itself, with the key in
// GEMINI_API_KEY.
func ExampleNew() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"A pause, "}]}}]}`+"\r\n\r\n")
		fmt.Fprint(w, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"as long as it takes."}]},"finishReason":"STOP"}],`+
			`"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":8}}`+"\r\n\r\n")
	}))
	defer service.Close()

	model, err := gemini.New(gemini.Options{Model: "gemini-3-flash-preview", BaseURL: service.URL, APIKey: "none"})
	if err != nil {
		panic(err)
	}
	req := llm.Request{Messages: []llm.Message{llm.UserText("What is a fermata?")}}
	for ev, err := range model.Generate(context.Background(), req) {
		switch ev := ev.(type) {
		case nil:
			panic(err)
		case llm.TextDelta:
			fmt.Print(ev.Text)
		case llm.Finish:
			fmt.Printf("\n%s after %d tokens\n", ev.Reason, ev.Usage.Output)
		}
	}
	// Output:
	// A pause, as long as it takes.
	// end after 8 tokens
}
