package openai

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// chatServer answers every request with the same body, and keeps the requests.
type chatServer struct {
	*httptest.Server
	answer http.HandlerFunc

	mu       sync.Mutex
	requests []string
}

func newChatServer(t *testing.T, answer http.HandlerFunc) *chatServer {
	s := &chatServer{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, string(body))
		s.mu.Unlock()
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// last returns the newest request.
func (s *chatServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

// model is one behind the server, which is no OpenAI.
func (s *chatServer) model(t *testing.T, o Options) *Chat {
	t.Helper()
	o.Model, o.BaseURL, o.Client = "m", s.URL+"/v1", s.Client()
	c, err := NewChat(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// streamed answers with events of the given data.
func streamed(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

// pieces are chunks with these deltas, an end and [DONE].
func pieces(finish string, deltas ...string) http.HandlerFunc {
	var events []string
	for _, d := range deltas {
		events = append(events, `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":`+d+`,"finish_reason":null}]}`)
	}
	end := fmt.Sprintf(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, finish)
	return streamed(append(events, end, "[DONE]")...)
}

// wholly answers with JSON.
func wholly(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func ask(t *testing.T, m llm.Model, r llm.Request) (llm.Message, llm.Finish, error) {
	t.Helper()
	if r.Messages == nil {
		r.Messages = []llm.Message{llm.UserText("hello")}
	}
	return llm.Collect(m.Generate(t.Context(), r))
}

func kind(err error) llm.ErrorKind {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// calls returns a message's calls in short: id name arguments, one a line.
func calls(m llm.Message) string {
	var all []string
	for _, c := range m.ToolCalls() {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.ProviderID, c.Name, c.Arguments)))
	}
	return strings.Join(all, "\n")
}
