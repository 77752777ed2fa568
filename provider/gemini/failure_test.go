package gemini

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"google.golang.org/genai"
)

func hello() llm.Request { return llm.Request{Messages: []llm.Message{llm.UserText("Hello.")}} }

func fails(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestErrors(t *testing.T) {
	const retry = `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%q}]`
	for _, c := range []struct {
		status int
		body   string
		kind   llm.ErrorKind
		after  time.Duration
	}{
		{429, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"` + fmt.Sprintf(retry, "27.5s") + `}}`, llm.ErrRateLimited, 27500 * time.Millisecond},
		{429, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"` + fmt.Sprintf(retry, "soon") + `}}`, llm.ErrRateLimited, 0},
		{429, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"` + fmt.Sprintf(retry, "9999999s") + `}}`, llm.ErrRateLimited, 24 * time.Hour},
		{429, `[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"` + fmt.Sprintf(retry, "3s") + `}}]`, llm.ErrRateLimited, 3 * time.Second},
		{403, `{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}`, llm.ErrAuth, 0},
		{400, `{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT"}}`, llm.ErrAuth, 0},
		{400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, llm.ErrInvalid, 0},
		{404, `{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}`, llm.ErrInvalid, 0},
		{504, `{"error":{"code":504,"message":"late","status":"DEADLINE_EXCEEDED"}}`, llm.ErrOverloaded, 0},
		{500, ``, llm.ErrOverloaded, 0},
		{500, `null`, llm.ErrOverloaded, 0},
		{500, `{"error":"a word"}`, llm.ErrOverloaded, 0},
		{400, `{"error":null}`, llm.ErrInvalid, 0},
		{401, strings.Repeat("<p>", 1<<20), llm.ErrAuth, 0},
		{302, `moved`, llm.ErrOverloaded, 0},
	} {
		for _, whole := range []bool{false, true} {
			_, _, err := serve(t, fails(c.status, c.body)).ask(t, Options{Whole: whole})
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != c.kind || e.RetryAfter != c.after || e.Provider != provider {
				t.Errorf("%d %.100s: %v", c.status, c.body, err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%d %.100s: the error has %d bytes", c.status, c.body, len(err.Error()))
			}
		}
	}
}

// A page that has no end isn't read to it.
func TestAnErrorWithoutEnd(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		for page := bytes.Repeat([]byte("<p>"), 1000); ; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	})
	if _, _, err := s.ask(t, Options{}); kind(err) != llm.ErrOverloaded || len(err.Error()) > 1000 {
		t.Error(err)
	}
}

// The service names the key where the project is suspended.
func TestNoErrorTellsTheKey(t *testing.T) {
	body := `{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:` + key + `' has been suspended.","status":"PERMISSION_DENIED",
		"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","metadata":{"containerInfo":"api_key:` + key + `"}}]}}`
	for _, answer := range []http.HandlerFunc{fails(403, body), fails(403, "["+body+"]"), fails(403, "not JSON "+body), stream(strings.ReplaceAll(body, "\n", " ")), fails(200, body)} {
		_, _, err := serve(t, answer).ask(t, Options{})
		var api genai.APIError
		if kind(err) != llm.ErrAuth || !errors.As(err, &api) {
			t.Errorf("%#v", err)
		}
		if s := fmt.Sprintf("%v %+v %#v", err, err, api); strings.Contains(s, key) || !strings.Contains(s, "(the key)") {
			t.Error(s)
		}
	}
}

// An error in the middle of a stream comes after what the model had said.
func TestAnErrorWithinAStream(t *testing.T) {
	text, err := os.ReadFile("testdata/replies/error_midstream.stream.http")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\n\n")
	m, _, err := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_1")
		fmt.Fprint(w, body)
	}).ask(t, Options{})
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.ErrOverloaded || e.RequestID != "req_1" || !e.Retryable() || m.Text() != "It is" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestRetries(t *testing.T) {
	for retries, want := range map[int]int{0: 1, 1: 2} {
		n := 0
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if n++; n == 1 {
				fails(503, `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`)(w, r)
				return
			}
			stream(says("STOP", `{"text":"a"}`))(w, r)
		})
		m := s.model(t, Options{Retries: retries})
		_, _, err := llm.Collect(m.Generate(t.Context(), hello()))
		if (err == nil) != (retries > 0) || len(s.body) != want {
			t.Errorf("%d retries: %d requests, %v", retries, len(s.body), err)
		}
		if last := len(s.body) - 1; string(s.body[last]) != string(s.body[0]) {
			t.Errorf("the second request is %s", s.body[last])
		}
	}
}
