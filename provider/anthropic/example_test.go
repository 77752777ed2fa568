package anthropic_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/anthropic"
)

func Example() {
	service := httptest.NewServer(http.HandlerFunc(standIn)) // in place of Anthropic's own
	defer service.Close()

	model, err := anthropic.New(anthropic.Options{
		Model:    "claude-opus-5-5",
		APIKey:   "sk-ant-...", // or ANTHROPIC_API_KEY in the environment
		BaseURL:  service.URL,  // left out: Anthropic's
		Client:   service.Client(),
		Thinking: anthropic.Thinking{Type: "adaptive"},
	})
	if err != nil {
		log.Fatal(err)
	}
	request := llm.Request{
		System:   "Be brief.",
		Messages: []llm.Message{llm.UserText("How is the weather in Tromsø?")},
		Cache:    llm.CacheShort,
	}
	for event, err := range model.Generate(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		switch event := event.(type) {
		case llm.TextDelta:
			fmt.Print(event.Text)
		case llm.Finish:
			fmt.Printf("\n%s, %d tokens\n", event.Reason, event.Usage.Total())
		}
	}
	// Output:
	// It is 7 °C in Tromsø.
	// end, 37 tokens
}

func standIn(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range [][2]string{
		{"message_start", `{"type":"message_start","message":{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":25,"output_tokens":1}}}`},
		{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`},
		{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It is 7 °C in Tromsø."}}`},
		{"content_block_stop", `{"type":"content_block_stop","index":0}`},
		{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}`},
		{"message_stop", `{"type":"message_stop"}`},
	} {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event[0], event[1])
	}
}
