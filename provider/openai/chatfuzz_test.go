package openai

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// Whatever a server sends, there is no panic, and a stream ends with one Finish or with one error.
func FuzzChatReply(f *testing.F) {
	files, err := filepath.Glob("testdata/*/replies/*.http")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		reply, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		_, body, _ := strings.Cut(string(reply), "\n\n")
		f.Add(body, strings.Contains(name, ".whole."), len(name)%2 == 0)
	}
	f.Fuzz(func(t *testing.T, body string, whole, strict bool) {
		c, err := NewChat(ChatOptions{Model: "m", BaseURL: "http://fuzz.example/v1", Whole: whole, Strict: strict,
			Client: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
			})}})
		if err != nil {
			t.Fatal(err)
		}
		r := llm.Request{Messages: []llm.Message{llm.UserText("hello")}, Tools: []llm.ToolDef{{Name: "get_weather", Input: []byte(`{"properties":{"city":{"type":"string"}}}`)}}}
		var collected llm.Collector
		ends := 0
		for e, err := range c.Generate(t.Context(), r) {
			if ends > 0 {
				t.Fatalf("%v, %v after the end", e, err)
			}
			if _, ok := e.(llm.Finish); ok || err != nil {
				ends++
			}
			if err == nil && collected.Add(e) != nil {
				return // the runner stops here
			}
		}
		if ends != 1 {
			t.Fatalf("%d ends", ends)
		}
		m, _, err := collected.Message()
		if err != nil {
			return
		}
		// What came can be sent again.
		for i, p := range m.Parts {
			if call, ok := p.(llm.ToolCall); ok {
				call.ID = "call"
				m.Parts[i] = call
			}
		}
		r.Messages = append(r.Messages, m)
		p, err := c.params(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
	})
}
