package anthropic

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers in place of Anthropic, with a body or a recorded reply, and
// keeps what it was asked.
type service struct {
	status   int    // 0: 200
	kind     string // of the content; "": of a stream
	body     string
	later    []string // bodies of the answers after the first
	requests []*http.Request
	bodies   []string
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := s.body
	if n := len(s.bodies); n > 0 && n <= len(s.later) {
		answer = s.later[n-1]
	}
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	if strings.HasPrefix(answer, "HTTP/") {
		return http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), r)
	}
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r}
	if s.status != 0 {
		res.StatusCode = s.status
	}
	if s.kind != "" {
		res.Header.Set("Content-Type", s.kind)
	}
	res.Body = io.NopCloser(strings.NewReader(answer))
	return res, nil
}

// model is one that asks the service.
func (s *service) model(t testing.TB, o Options) *Model {
	t.Helper()
	if o.Model == "" {
		o.Model = "claude-opus-5-5"
	}
	if o.Origin == "" {
		o.Origin = "api.anthropic.com"
	}
	o.APIKey, o.BaseURL, o.Client = "sk-test-key", "http://anthropic.invalid", &http.Client{Transport: s}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// recorded returns a reply of the suite.
func recorded(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "replies", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// events returns a stream of events, each given by its data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		_, kind, _ := strings.Cut(d, `"type":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		b.WriteString("event: " + kind + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

const (
	begin    = `{"type":"message_start","message":{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`
	first    = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`
	stop     = `{"type":"message_stop"}`
	endTurn  = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`
	callsOut = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`
)

func collect(t testing.TB, m *Model, req llm.Request) (llm.Message, llm.Finish) {
	t.Helper()
	msg, fin, err := llm.Collect(m.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	return msg, fin
}

func hello() llm.Request { return llm.Request{Messages: []llm.Message{llm.UserText("Hello")}} }
