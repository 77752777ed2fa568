package openai_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// mangle changes a reply: it drops, doubles and swaps events, and bytes in the
// middle of them.
func mangle(r *rand.Rand, body, separator string) string {
	events := strings.Split(body, separator)
	for range 1 + r.IntN(3) {
		i, j := r.IntN(len(events)), r.IntN(len(events))
		switch r.IntN(5) {
		case 0:
			events = slices.Delete(slices.Clone(events), i, i+1)
		case 1:
			events = slices.Insert(slices.Clone(events), i, events[j])
		case 2:
			events[i], events[j] = events[j], events[i]
		case 3:
			events[i] = strings.NewReplacer("function_call", "message", `"output_index":0`, `"output_index":1`, "rs_", "").Replace(events[i])
		case 4:
			if n := len(events[i]); n > 0 {
				from := r.IntN(n)
				to := min(n, from+r.IntN(9))
				events[i] = events[i][:from] + []string{"", "null", "{}", `"`, "[]", "1e999", "\\ud800"}[r.IntN(7)] + events[i][to:]
			}
		}
		if len(events) == 0 {
			return ""
		}
	}
	return strings.Join(events, separator)
}

// Whatever a server sends, the adapter doesn't panic, ends with one Finish or
// one error, and can send back what it made of it.
func TestRandomReplies(t *testing.T) {
	files, err := filepath.Glob("testdata/responses/replies/*.http")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	const times = 20 // each reply is changed
	for i, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(b), "\n\n")
		contentType, separator := "text/event-stream", "\n\n"
		if !strings.Contains(name, ".stream.") {
			contentType, separator = "application/json", "\n"
		}
		r := rand.New(rand.NewPCG(1, uint64(i)))
		for range times {
			s := says{contentType, mangle(r, body, separator)}
			if err := s.roundTrip(t); err != nil {
				t.Fatalf("%s: %v; the reply was\n%s", name, err, s.body)
			}
		}
	}
}

// roundTrip asks for the reply, and then sends it back.
func (s says) roundTrip(t *testing.T) error {
	whole, strict := s.contentType == "application/json", len(s.body)%2 == 0
	model := func(s says) llm.Model {
		m, err := openai.NewResponses(openai.Options{
			Model: "gpt-5", BaseURL: "http://localhost", Origin: "api.openai.com", Whole: whole, Strict: strict, Client: &http.Client{Transport: s},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	req := llm.Request{Messages: []llm.Message{llm.UserText("a")}, Tools: []llm.ToolDef{
		{Name: "get_weather", Input: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)},
	}}
	var c llm.Collector
	ends := 0
	for e, err := range model(s).Generate(t.Context(), req) {
		if ends > 0 {
			return fmt.Errorf("after the end: %v, %w", e, err)
		}
		if _, finish := e.(llm.Finish); finish || err != nil {
			ends++
		}
		if err == nil {
			err = c.Add(e)
		}
		if err != nil {
			if kind(err) == "" {
				return fmt.Errorf("%T: %w", err, err)
			}
			return nil
		}
	}
	m, _, err := c.Message()
	if err != nil || ends != 1 {
		return fmt.Errorf("%d ends, and %w", ends, err)
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
		end.contentType, end.body = "application/json", `{"status":"completed","output":[]}`
	}
	_, _, err = llm.Collect(model(end).Generate(t.Context(), req))
	return err
}
