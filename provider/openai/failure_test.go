package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/openai/openai-go/v3"
)

func failed(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Compatible servers tell of errors in many forms, and each is told on.
func TestErrorsOfManyServers(t *testing.T) {
	const (
		key  = "sk-0123456789abcdef"
		groq = `{"error":{"message":"Failed to call a function","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=f{\"n\":1}>"}}`
	)
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   llm.ErrorKind
		says   string
	}{
		{"OpenAI", 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, llm.ErrAuth, "Incorrect API key"},
		{"a quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.ErrAuth, "insufficient_quota"},
		{"Ollama", 404, `{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, llm.ErrInvalid, "try pulling it"},
		{"Ollama's older form", 404, `{"error":"model 'm' not found"}`, llm.ErrInvalid, "model 'm' not found"},
		{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`, llm.ErrContextTooLong, "BadRequestError: This model's"},
		{"FastAPI", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`, llm.ErrInvalid, "field required"},
		{"FastAPI in words", 404, `{"detail":"Not Found"}`, llm.ErrInvalid, "Not Found"},
		{"Gemini", 400, `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]`, llm.ErrAuth, "INVALID_ARGUMENT: API key not valid."},
		{"OpenRouter", 502, `{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\"error\":\"upstream is full\"}","provider_name":"X"}}}`, llm.ErrOverloaded, "upstream is full"},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, llm.ErrContextTooLong, "available context size"},
		{"Groq, which can't read the model's call", 400, groq, llm.ErrTruncated, "tool_use_failed: Failed to call a function: <function=f{\"n\":1}>"},
		{"Groq, whose model wrote no JSON", 400, `{"error":{"message":"Failed to generate JSON","code":"json_validate_failed","failed_generation":"{\"n\":"}}`, llm.ErrTruncated, `Failed to generate JSON: {"n":`},
		{"Groq's code alone", 400, `{"error":{"message":"Tool choice is none, but model called a tool","code":"tool_use_failed"}}`, llm.ErrTruncated, "but model called"},
		{"a key that is quoted", 401, `{"error":{"message":"key ` + key + ` is unknown"}}`, llm.ErrAuth, "key (the key) is unknown"},
		{"a key in a page", 403, `<p>` + key + `</p>`, llm.ErrAuth, "<p>(the key)</p>"},
		{"HTML", 502, "<html>\n<body>Bad gateway</body></html>", llm.ErrOverloaded, "Bad gateway"},
		{"nothing", 503, "", llm.ErrOverloaded, "503"},
		{"null", 500, "null", llm.ErrOverloaded, "500"},
		{"an empty list", 500, "[]", llm.ErrOverloaded, "500"},
		{"an error that is null", 500, `{"error":null}`, llm.ErrOverloaded, "500"},
		{"half of an error", 500, `{"error":{"mess`, llm.ErrOverloaded, "mess"},
		{"bytes", 500, "\xff\xfe\x00", llm.ErrOverloaded, "500"},
	} {
		s := newChatServer(t, failed(c.status, c.body))
		for _, whole := range []bool{false, true} {
			_, _, err := ask(t, s.model(t, Options{Whole: whole, APIKey: key}), llm.Request{})
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s: %s", c.name, err, c.kind, c.says)
				continue
			}
			if e.RequestID != "req_1" || strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func TestTheSDKsErrorCanBeFound(t *testing.T) {
	s := newChatServer(t, failed(400, `{"error":{"message":"bad","type":"invalid_request_error","param":"tools","code":"x"}}`))
	_, _, err := ask(t, s.model(t, Options{}), llm.Request{})
	var e *openai.Error
	if !errors.As(err, &e) || e.Param != "tools" || len(s.requests) != 1 {
		t.Errorf("%v, after %d requests", err, len(s.requests))
	}
}

// An error's body that never ends doesn't fill the memory.
func TestEndlessErrorsAreCutOff(t *testing.T) {
	s := newChatServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		for {
			if _, err := w.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
				return
			}
		}
	})
	if _, _, err := ask(t, s.model(t, Options{}), llm.Request{}); kind(err) != llm.ErrOverloaded || len(err.Error()) > 500 {
		t.Error(err)
	}
}

func TestRetriesOfTheSDK(t *testing.T) {
	tries := 0
	s := newChatServer(t, func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries < 3 {
			w.Header().Set("Retry-After-Ms", "1")
			failed(503, "")(w, r)
			return
		}
		pieces("stop", `{"content":"ok"}`)(w, r)
	})
	m, _, err := ask(t, s.model(t, Options{Retries: 2}), llm.Request{})
	if err != nil || m.Text() != "ok" || tries != 3 {
		t.Errorf("%v %q after %d tries", err, m.Text(), tries)
	}
}

// hangs sends a beginning and then nothing, until the request is given up or
// the test ends.
func hangs(t *testing.T, beginning string) http.HandlerFunc {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, beginning)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
}

const begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"It is\"}}]}\n\n"

func TestTimeouts(t *testing.T) {
	for _, beginning := range []string{"", begun} {
		s := newChatServer(t, hangs(t, beginning))
		for _, whole := range []bool{false, true} {
			if whole && beginning != "" {
				continue
			}
			_, _, err := ask(t, s.model(t, Options{Timeout: 30 * time.Millisecond, Whole: whole}), llm.Request{})
			if kind(err) != llm.ErrNetwork || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Timeout") {
				t.Errorf("%q, whole %v: %v", beginning, whole, err)
			}
		}
		client := *s.Client()
		client.Timeout = 30 * time.Millisecond
		m, err := NewChat(Options{Model: "m", BaseURL: s.URL, Client: &client})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ask(t, m, llm.Request{}); kind(err) != llm.ErrNetwork || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, the client's timeout: %v", beginning, err)
		}
	}
}

func TestTheContextsErrorStaysAsItIs(t *testing.T) {
	s := newChatServer(t, hangs(t, begun))
	for _, whole := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, _, err := llm.Collect(s.model(t, Options{Whole: whole, Timeout: time.Hour}).Generate(ctx, llm.Request{Messages: []llm.Message{llm.UserText("x")}}))
		cancel()
		if err != context.DeadlineExceeded {
			t.Errorf("whole %v: %v", whole, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range s.model(t, Options{}).Generate(ctx, llm.Request{Messages: []llm.Message{llm.UserText("x")}}) {
		if err != nil {
			if err != context.Canceled {
				t.Error(err)
			}
			continue
		}
		if e != (llm.TextDelta{Text: "It is"}) {
			t.Error(e)
		}
		cancel()
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	s := newChatServer(t, nil)
	m := s.model(t, Options{APIKey: "sk-0123456789abcdef"})
	s.Close()
	_, _, err := ask(t, m, llm.Request{})
	if kind(err) != llm.ErrNetwork || strings.Contains(fmt.Sprintf("%v %+v", err, err), "sk-") {
		t.Error(err)
	}
}
