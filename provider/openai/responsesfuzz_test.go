package openai_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// says is a client that answers with a body.
type says struct{ contentType, body string }

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.contentType}}, Body: io.NopCloser(strings.NewReader(s.body)), Request: r,
	}, nil
}

// Whatever a server sends, the adapter doesn't panic, ends with one Finish or one error, and can send back what it made of it.
func FuzzResponsesReply(f *testing.F) {
	files, err := filepath.Glob("testdata/responses/replies/*.http")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		_, body, _ := strings.Cut(string(b), "\n\n")
		f.Add(body, strings.Contains(name, ".whole."), false)
	}
	f.Add("data: "+added(1, call("c1", "read", ""))+"\n\ndata: "+filtered+"\n\n", false, true)
	read := []llm.ToolDef{{Name: "get_weather", Input: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}}
	f.Fuzz(func(t *testing.T, body string, whole, strict bool) {
		contentType := "text/event-stream"
		if whole {
			contentType = "application/json"
		}
		model := func(s says) llm.Model {
			m, err := openai.NewResponses(openai.ResponsesOptions{
				Model: "gpt-5", BaseURL: "http://localhost", Whole: whole, Strict: strict, Client: &http.Client{Transport: s},
			})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		req := llm.Request{Messages: []llm.Message{llm.UserText("a")}, Tools: read}
		var c llm.Collector
		ends := 0
		for e, err := range model(says{contentType, body}).Generate(t.Context(), req) {
			if ends > 0 {
				t.Fatalf("after the end: %v, %v", e, err)
			}
			if _, finish := e.(llm.Finish); finish || err != nil {
				ends++
			}
			if err != nil {
				if kind(err) == "" {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			if err := c.Add(e); err != nil {
				return
			}
		}
		m, _, err := c.Message()
		if err != nil || ends != 1 {
			t.Fatal(ends, err)
		}
		results := llm.Message{Role: llm.RoleTool}
		for i, p := range m.Parts {
			if c, ok := p.(llm.ToolCall); ok {
				c.ID = "own" + strings.Repeat("x", i)
				m.Parts[i] = c
				results.Parts = append(results.Parts, llm.ToolResult{Call: c.ID, Name: c.Name, Output: []byte("1")})
			}
		}
		req.Messages = append(req.Messages, m, results)
		end := says{"text/event-stream", "data: " + completed + "\n\n"}
		if whole {
			end = says{"application/json", `{"status":"completed","output":[]}`}
		}
		if _, _, err := llm.Collect(model(end).Generate(t.Context(), req)); err != nil {
			t.Fatalf("%v: %v", m, err)
		}
	})
}
