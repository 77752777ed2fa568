package gemini

import (
	"bytes"
	"encoding/json"
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

const key = "AIza-fermata-means-nothing"

// service answers with the same reply every time, and keeps what it was asked.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*http.Request // with their bodies read, into bodies
	body  [][]byte
}

func serve(t testing.TB, answer http.HandlerFunc) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.asked, s.body = append(s.asked, r), append(s.body, b)
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(b))
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// stream returns a reply of events, one for each JSON text.
func stream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\r\n\r\n", e)
		}
	}
}

// says returns an event with parts, and with a finish reason where one is
// given.
func says(finish string, parts ...string) string {
	e := `{"candidates":[{"content":{"role":"model","parts":[` + strings.Join(parts, ",") + `]},"index":0`
	if finish != "" {
		e += `,"finishReason":"` + finish + `"`
	}
	return e + `}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`
}

func (s *service) model(t testing.TB, o Options) *Model {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	if o.Client == nil {
		o.Client = &http.Client{Transport: transport}
	}
	if o.Model == "" {
		o.Model = "gemini-3-flash-preview"
	}
	o.APIKey, o.BaseURL = key, s.URL
	if o.Origin == "" {
		o.Origin = domain
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask asks for one message.
func (s *service) ask(t testing.TB, o Options, messages ...llm.Message) (llm.Message, llm.Finish, error) {
	t.Helper()
	if len(messages) == 0 {
		messages = []llm.Message{llm.UserText("Hello.")}
	}
	return llm.Collect(s.model(t, o).Generate(t.Context(), llm.Request{Messages: messages}))
}

// contents are those of the last request.
func (s *service) contents(t testing.TB) string {
	t.Helper()
	var body struct{ Contents json.RawMessage }
	if err := json.Unmarshal(s.body[len(s.body)-1], &body); err != nil {
		t.Fatal(err)
	}
	return string(body.Contents)
}

func kind(err error) llm.ErrorKind {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}
