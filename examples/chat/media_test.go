package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
	"github.com/fermata-ai/fermata/provider/anthropic"
	"github.com/fermata-ai/fermata/provider/gemini"
	"github.com/fermata-ai/fermata/provider/openai"
)

// TestMediaBeforeAPauseUnderAnotherProvider: the media in the message that led
// to a pause was good enough for the provider of then. The next one may not
// take it, and the sender of the answer can't mend that.
func TestMediaBeforeAPauseUnderAnotherProvider(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o := llmtest.Options{BaseURL: srv.URL, Client: &http.Client{Transport: transport}}
	models := []llm.Model{
		opened(
			anthropic.New(anthropic.Options{Model: "claude-sonnet-5-5", APIKey: llmtest.APIKey,
				BaseURL: o.BaseURL, Origin: "api.anthropic.com", Client: o.Client}))(t),
		opened(
			openai.NewChat(openai.Options{Model: "acme/large", APIKey: llmtest.APIKey,
				BaseURL: "https://openrouter.ai/api/v1", Client: llmtest.Detour(t, o)}))(t),
		opened(
			openai.NewResponses(openai.Options{Model: "gpt-5.6-terra", APIKey: llmtest.APIKey,
				BaseURL: o.BaseURL, Origin: "api.openai.com", Client: o.Client}))(t),
		opened(
			gemini.New(gemini.Options{Model: "gemini-3.8-flash", APIKey: llmtest.APIKey,
				BaseURL: o.BaseURL, Origin: "generativelanguage.googleapis.com",
				Client: o.Client}))(t),
	}
	for _, media := range []llm.Media{
		{MediaType: "audio/wav", Data: []byte("RIFF")},
		{MediaType: "image/bmp", Data: []byte("BM")}, {MediaType: "text/csv", Data: []byte{0xff}},
		{MediaType: "video/mp4", URL: "gs://a/b"},
	} {
		said := llm.Message{Role: llm.RoleUser,
			Parts: []llm.Part{llm.Text{Text: "What is it?"}, media}}
		history := []llm.Message{
			said,
			{Role: llm.RoleAssistant,
				Parts: []llm.Part{
					llm.ToolCall{ID: "call_1", Name: "look", Arguments: []byte(`{}`)}}},
			{Role: llm.RoleTool,
				Parts: []llm.Part{
					llm.ToolResult{Call: "call_1", Name: "look", Output: []byte(`"x"`)}}},
		}
		for _, m := range models {
			before := reached.Load()
			_, _, err := llm.Collect(m.Generate(t.Context(), llm.Request{Messages: history}))
			if reached.Load() == before {
				t.Errorf("%s: %s: %v", fmt.Sprint(m), media.MediaType, err)
			}
		}
	}
}
