package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/fermata-ai/fermata/llm"
)

func TestErrors(t *testing.T) {
	problem := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	middle := []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`}
	for _, c := range []struct {
		name    string
		service service
		kind    llm.ErrorKind
		words   string
	}{
		{"overloaded in the middle", service{body: events(append(middle, problem("overloaded_error", "Overloaded"))...)}, llm.ErrOverloaded, "overloaded_error: Overloaded"},
		{"too fast in the middle", service{body: events(append(middle, problem("rate_limit_error", "Slow"))...)}, llm.ErrRateLimited, "Slow"},
		{"broken in the middle", service{body: events(append(middle, problem("api_error", "Oops"))...)}, llm.ErrOverloaded, "Oops"},
		{"invalid in the middle", service{body: events(append(middle, problem("invalid_request_error", "No"))...)}, llm.ErrInvalid, "No"},
		{"of a kind to come in the middle", service{body: events(append(middle, problem("dream_error", "Zzz"))...)}, llm.ErrOverloaded, "dream_error"},
		{"nothing in the middle", service{body: "event: message_start\ndata: " + begin + "\n\nevent: error\ndata: \n\n"}, llm.ErrOverloaded, ""},
		{"an error with the status 200", service{kind: "application/json", body: problem("overloaded_error", "Overloaded")}, llm.ErrOverloaded, "Overloaded"},
		{"a page with the status 200", service{kind: "text/html", body: "<html>\n<b>Sign in</b></html>"}, llm.ErrOverloaded, "Sign in"},
		{"another value", service{kind: "application/json", body: `[1]`}, llm.ErrMalformed, "[1]"},
		{"another object", service{kind: "application/json", body: `{"object":"chat.completion"}`}, llm.ErrMalformed, "chat.completion"},
		{"a part of a message", service{kind: "application/json", body: `{"type":"message","content":[`}, llm.ErrTruncated, ""},
		{"nothing", service{body: ""}, llm.ErrTruncated, ""},
		{"content that is no list", service{kind: "application/json", body: `{"type":"message","content":"a"}`}, llm.ErrMalformed, "content"},
		{"not found", service{status: 404, kind: "application/json", body: problem("not_found_error", "model: claude-none")}, llm.ErrInvalid, "claude-none"},
		{"too large", service{status: 413, kind: "application/json", body: problem("request_too_large", "Request exceeds the maximum size")}, llm.ErrContextTooLong, "maximum size"},
		{"no money", service{status: 402, kind: "application/json", body: problem("billing_error", "No credit")}, llm.ErrAuth, "No credit"},
		{"not allowed", service{status: 403, kind: "application/json", body: problem("permission_error", "No")}, llm.ErrAuth, "No"},
		{"a gateway quotes the key", service{status: 401, kind: "text/plain", body: "bad key: sk-test-key"}, llm.ErrAuth, "bad key: (the key)"},
		{"no body", service{status: 503}, llm.ErrOverloaded, "503"},
	} {
		for _, whole := range []bool{false, true} {
			if whole && c.service.kind == "" && c.service.status == 0 {
				continue // it is about a stream
			}
			t.Run(fmt.Sprintf("%s, whole %v", c.name, whole), func(t *testing.T) {
				s := c.service
				_, _, err := llm.Collect(s.model(t, Options{Whole: whole}).Generate(t.Context(), hello()))
				var e *llm.Error
				if !errors.As(err, &e) || e.Kind != c.kind || e.Provider != "anthropic" || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v, want an error of kind %s that says %q", err, c.kind, c.words)
				}
				if strings.Contains(err.Error(), "sk-test-key") {
					t.Errorf("the error tells the key: %v", err)
				}
			})
		}
	}
}

// A caller that needs more finds the SDK's error.
func TestSDKError(t *testing.T) {
	s := &service{body: recorded(t, "error_auth.http")}
	_, _, err := llm.Collect(s.model(t, Options{}).Generate(t.Context(), hello()))
	var e *sdk.Error
	if !errors.As(err, &e) || e.StatusCode != 401 || e.Type() != "authentication_error" {
		t.Errorf("%v holds no error of the SDK's that says so: %+v", err, e)
	}
}

// A server that knows no streams is read all the same.
func TestInsteadOfStream(t *testing.T) {
	s := &service{body: recorded(t, "tool.whole.http")}
	m, fin := collect(t, s.model(t, Options{}), hello())
	if fin.Reason != llm.StopToolCalls || len(m.ToolCalls()) != 1 {
		t.Errorf("%v, %v", m, fin)
	}
}

// slow answers when the request's context has ended.
type slow struct{ service }

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.service.RoundTrip(r)
	if err == nil {
		res.Body = &hanging{Reader: res.Body, ctx: r.Context()}
	}
	return res, err
}

type hanging struct {
	io.Reader
	ctx context.Context
}

func (h *hanging) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); n > 0 || err != io.EOF {
		return n, err
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (*hanging) Close() error { return nil }

func TestTimeout(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{service{body: events(begin)}}
			made := func(o Options) *Model {
				o.Model, o.APIKey, o.BaseURL, o.Client, o.Whole = "m", "sk-test-key", "http://anthropic.invalid", &http.Client{Transport: s}, whole
				m, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			_, _, err := llm.Collect(made(Options{Timeout: time.Minute}).Generate(t.Context(), hello()))
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != llm.ErrNetwork || !e.Retryable() || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1m0s") {
				t.Errorf("after the Timeout, whole %v: %v", whole, err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if _, _, err := llm.Collect(made(Options{Timeout: time.Minute}).Generate(ctx, hello())); err != context.DeadlineExceeded {
				t.Errorf("after the caller's time, whole %v: %v", whole, err)
			}
		})
	}
}

// The HTTP client's own time is no end of the caller's.
func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{service{body: events(begin)}}
		m, err := New(Options{Model: "m", APIKey: "sk-test-key", BaseURL: "http://anthropic.invalid", Client: &http.Client{Transport: s, Timeout: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = llm.Collect(m.Generate(t.Context(), hello()))
		var e *llm.Error
		if !errors.As(err, &e) || !e.Retryable() || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want one that passes", err)
		}
	})
}

// Retries are the SDK's, and only before a stream.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{body: recorded(t, "error_overloaded.http")}
		_, _, err := llm.Collect(s.model(t, Options{}).Generate(t.Context(), hello()))
		if err == nil || len(s.bodies) != 1 {
			t.Errorf("%d requests, want one: %v", len(s.bodies), err)
		}
		_, _, err = llm.Collect(s.model(t, Options{Retries: 2}).Generate(t.Context(), hello()))
		if err == nil || len(s.bodies) != 4 || s.bodies[3] != s.bodies[1] {
			t.Errorf("%d requests, want three more that are alike: %v", len(s.bodies), err)
		}
	})
}
