package openai

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// Whatever a server sends, there is no panic, and a stream ends with one Finish
// or with one error.
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
	f.Fuzz(tryChatReply)
}

// Replies in which events are lost, repeated, swapped or damaged are no worse.
func TestRandomChatReplies(t *testing.T) {
	files, err := filepath.Glob("testdata/*/replies/*.http")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	const times = 15 // each reply is changed
	for i, name := range files {
		reply, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(reply), "\n\n")
		r := rand.New(rand.NewPCG(2, uint64(i)))
		for range times {
			tryChatReply(t, damaged(r, body), r.IntN(2) == 0, r.IntN(2) == 0)
		}
	}
}

// damaged changes a reply at a few places.
func damaged(r *rand.Rand, body string) string {
	events := strings.SplitAfter(body, "\n\n")
	for range 1 + r.IntN(3) {
		i, j := r.IntN(len(events)), r.IntN(len(events))
		switch r.IntN(4) {
		case 0:
			events[i] = ""
		case 1:
			events[i] += events[j]
		case 2:
			events[i], events[j] = events[j], events[i]
		case 3:
			from := r.IntN(len(events[i]) + 1)
			to := min(len(events[i]), from+r.IntN(9))
			odd := []string{"", "null", "{}", `"`, "[]", "1e999", `\ud834`, "\xf0\x9d", `"index":0,`, `"content":[{"type":"thinking","thinking":[null,{"type":"text"}]},{"type":"x"}],`}
			events[i] = events[i][:from] + odd[r.IntN(len(odd))] + events[i][to:]
		}
	}
	return strings.Join(events, "")
}

func tryChatReply(t *testing.T, body string, whole, strict bool) {
	c, err := NewChat(Options{Model: "m", BaseURL: "http://fuzz.example/v1", Whole: whole, Strict: strict,
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
}
