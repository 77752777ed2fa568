package wire

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
)

func TestHTTPErrors(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, message string
		want          llm.ErrorKind
	}{
		{401, "", "", llm.ErrAuth},
		{403, "", "", llm.ErrAuth},
		{402, "", "", llm.ErrAuth},
		{400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", llm.ErrAuth},
		{429, "", "", llm.ErrRateLimited},
		{429, "insufficient_quota", "You exceeded your current quota", llm.ErrAuth},
		{429, "rate_limit_exceeded", "too many tokens per minute", llm.ErrRateLimited},
		{429, "", "Request too large: too many tokens per minute", llm.ErrRateLimited},
		{529, "overloaded_error", "Overloaded", llm.ErrOverloaded},
		{500, "", "", llm.ErrOverloaded},
		{502, "", "<html>Bad gateway</html>", llm.ErrOverloaded},
		{503, "UNAVAILABLE", "The model is overloaded", llm.ErrOverloaded},
		{408, "", "", llm.ErrOverloaded},
		{400, "context_length_exceeded", "", llm.ErrContextTooLong},
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", llm.ErrContextTooLong},
		{400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", llm.ErrContextTooLong},
		{413, "", "", llm.ErrContextTooLong},
		{400, "content_filter", "", llm.ErrRefused},
		{400, "", "unknown parameter", llm.ErrInvalid},
		{404, "", "no such model", llm.ErrInvalid},
		{404, "api_error", "no such model", llm.ErrInvalid},
		{409, "api_error", "busy", llm.ErrOverloaded},
		{429, "slow_down", "", llm.ErrRateLimited},
	} {
		h := http.Header{"X-Request-Id": {"req_1"}, "Retry-After": {"7"}}
		e := AnswerError("acme", Answer{Status: c.status, Header: h, Code: c.code, Message: c.message})
		if e.Kind != c.want || e.RequestID != "req_1" || e.RetryAfter != 7*time.Second || e.Provider != "acme" {
			t.Errorf("%d %s %q: %+v, want %s", c.status, c.code, c.message, e, c.want)
		}
	}
	long := AnswerError("acme", Answer{Status: 502, Message: "<html>\n\n" + strings.Repeat("é ", 4000)})
	if s := long.Error(); len(s) > 500 || strings.Contains(s, "\n") {
		t.Errorf("the error is %d bytes: %s", len(s), s)
	}
	if cause := errors.New("boom"); !errors.Is(AnswerError("acme", Answer{Status: 500, Cause: cause}), cause) {
		t.Error("the cause can't be found")
	}
}

// An error within an answer that had begun well has no status; whose fault it
// is follows by one rule for all providers.
func TestErrorsWithinAnAnswer(t *testing.T) {
	for _, c := range []struct {
		code, typ, message string
		want               llm.ErrorKind
		says               string
	}{
		{"", "overloaded_error", "Overloaded", llm.ErrOverloaded, "acme: overloaded: overloaded_error: Overloaded"},
		{"", "invalid_request_error", "No", llm.ErrInvalid, "acme: invalid_request: invalid_request_error: No"},
		{"", "not_found_error", "No", llm.ErrInvalid, "not_found_error"},
		{"", "invalid_request_error", "prompt is too long: 2 tokens > 1", llm.ErrContextTooLong, "prompt"},
		{"model_unknown", "invalid_request_error", "No", llm.ErrInvalid, "model_unknown: No"},
		{"context_length_exceeded", "invalid_request_error", "No", llm.ErrContextTooLong, "No"},
		{"rate_limit_exceeded", "", "Slow", llm.ErrRateLimited, "Slow"},
		{"image_too_large", "", "No", llm.ErrInvalid, "No"},
		{"cyber_policy", "", "No", llm.ErrInvalid, "No"},
		{"vector_store_timeout", "", "Late", llm.ErrOverloaded, "Late"},
		{"INVALID_ARGUMENT", "", "No", llm.ErrInvalid, "No"},
		{"FAILED_PRECONDITION", "", "No", llm.ErrInvalid, "No"},
		{"RESOURCE_EXHAUSTED", "", "Slow", llm.ErrRateLimited, "Slow"},
		{"", "dream_error", "Zzz", llm.ErrOverloaded, "Zzz"},
		{"", "", "Oops", llm.ErrOverloaded, "acme: overloaded: Oops"},
		{"", "", "", llm.ErrOverloaded, "nothing more is said"},
	} {
		for _, status := range []int{0, 200} {
			err := AnswerError("acme", Answer{Status: status, Code: c.code, Type: c.typ, Message: c.message})
			if err.Kind != c.want || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "HTTP") {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

func TestTransportErrors(t *testing.T) {
	own := &llm.Error{Kind: llm.ErrAuth}
	for _, c := range []struct {
		in   error
		want llm.ErrorKind // "": it stays as it is
	}{
		{fmt.Errorf("read: %w", context.Canceled), ""},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), ""},
		{own, ""},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), llm.ErrTruncated},
		{errors.New("connection refused"), llm.ErrNetwork},
	} {
		got := TransportError("acme", c.in)
		var e *llm.Error
		switch {
		case !errors.Is(got, c.in):
			t.Errorf("%v became %v", c.in, got)
		case c.want == "" && got != c.in:
			t.Errorf("%v became %v", c.in, got)
		case c.want != "" && (!errors.As(got, &e) || e.Kind != c.want || e.Provider != "acme" || !e.Retryable()):
			t.Errorf("%v became %v", c.in, got)
		}
	}
	if TransportError("acme", nil) != nil {
		t.Error("no failure is one")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "NaN": 0, "soon": 0, "1e99": 24 * time.Hour, "Inf": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	if got := retryAfter(http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"9"}}, now); got != 250*time.Millisecond {
		t.Errorf("milliseconds: %v", got)
	}
}
