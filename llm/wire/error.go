package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// HTTPError is a provider's answer with a status other than 2xx, as an error of the right kind. code is the provider's own word for what
// is wrong, such as "rate_limit_exceeded"; message is for people; cause may be nil.
//
// The kind follows from the code where it tells more than the status, then from the message, then from the status.
func HTTPError(provider string, status int, h http.Header, code, message string, cause error) *llm.Error {
	if cause == nil {
		cause = fmt.Errorf("HTTP status %d: %s", status, Excerpt(message))
	}
	return &llm.Error{
		Kind: kindOf(status, code, message), Provider: provider, RequestID: requestID(h), RetryAfter: RetryAfter(h, time.Now()), Err: cause,
	}
}

// TransportError is a failure to reach a provider, or to read its answer to the end. The errors of an ended context stay as they are.
// A redirection that [Client] didn't follow is an invalid request.
func TransportError(provider string, cause error) error {
	var (
		e    *llm.Error
		sent redirected
	)
	switch {
	case cause == nil:
		return nil
	case errors.As(cause, &sent):
		return Invalid(provider, "%w", sent)
	case errors.As(cause, &e), errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return cause
	case errors.Is(cause, io.ErrUnexpectedEOF), errors.Is(cause, io.EOF):
		return &llm.Error{Kind: llm.ErrTruncated, Provider: provider, Err: cause}
	}
	return &llm.Error{Kind: llm.ErrNetwork, Provider: provider, Err: cause}
}

// Timeout is a generation that took longer than the adapter's Options.Timeout. It holds no context.DeadlineExceeded: the caller's context
// goes on.
func Timeout(provider string, after time.Duration) error {
	return &llm.Error{Kind: llm.ErrNetwork, Provider: provider, Err: fmt.Errorf("there is no whole message after %v, which is the options' Timeout", after)}
}

// Truncated is a stream that ended without its end marker.
func Truncated(provider string) error {
	return &llm.Error{Kind: llm.ErrTruncated, Provider: provider, Err: errors.New("the stream ended without its end marker")}
}

// Malformed is a stream that breaks its own rules.
func Malformed(provider, format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrMalformed, Provider: provider, Err: fmt.Errorf(format, args...)}
}

// Invalid is a request that the provider couldn't be sent.
func Invalid(provider, format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrInvalid, Provider: provider, Err: fmt.Errorf(format, args...)}
}

// What providers call things. The words are those of OpenAI's, Anthropic's and Google's references, and of compatible servers.
var (
	codes = map[string]llm.ErrorKind{
		"authentication_error": llm.ErrAuth, "invalid_api_key": llm.ErrAuth, "permission_error": llm.ErrAuth, "PERMISSION_DENIED": llm.ErrAuth,
		"UNAUTHENTICATED": llm.ErrAuth, "API_KEY_INVALID": llm.ErrAuth, "insufficient_quota": llm.ErrAuth, "billing_error": llm.ErrAuth,
		"rate_limit_error": llm.ErrRateLimited, "rate_limit_exceeded": llm.ErrRateLimited, "RESOURCE_EXHAUSTED": llm.ErrRateLimited,
		"overloaded_error": llm.ErrOverloaded, "UNAVAILABLE": llm.ErrOverloaded, "server_is_overloaded": llm.ErrOverloaded, "slow_down": llm.ErrOverloaded,
		"api_error": llm.ErrOverloaded, "server_error": llm.ErrOverloaded, "INTERNAL": llm.ErrOverloaded, "timeout_error": llm.ErrOverloaded, "DEADLINE_EXCEEDED": llm.ErrOverloaded,
		"context_length_exceeded": llm.ErrContextTooLong, "request_too_large": llm.ErrContextTooLong, "string_above_max_length": llm.ErrContextTooLong,
		"content_filter": llm.ErrRefused, "content_policy_violation": llm.ErrRefused, "invalid_prompt": llm.ErrRefused,
	}
	tooLong = []string{
		"prompt is too long", "maximum context length", "context window", "context length", "context_length", "exceeds the maximum number of tokens",
		"input token count", "too many tokens", "exceeds the available context size",
	}
	badKey = []string{"api key not valid", "api key expired", "incorrect api key", "invalid api key", "invalid x-api-key"}
)

func kindOf(status int, code, message string) llm.ErrorKind {
	if kind, ok := codes[code]; ok {
		return kind
	}
	lower := strings.ToLower(message)
	has := func(words []string) bool {
		for _, w := range words {
			if strings.Contains(lower, w) {
				return true
			}
		}
		return false
	}
	client := status >= 400 && status < 500
	switch {
	case client && has(badKey):
		return llm.ErrAuth
	case client && status != http.StatusTooManyRequests && has(tooLong):
		return llm.ErrContextTooLong
	}
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return llm.ErrAuth
	case http.StatusTooManyRequests:
		return llm.ErrRateLimited
	case http.StatusRequestEntityTooLarge:
		return llm.ErrContextTooLong
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return llm.ErrOverloaded
	}
	if client {
		return llm.ErrInvalid
	}
	return llm.ErrOverloaded
}

func requestID(h http.Header) string {
	for _, name := range []string{"x-request-id", "request-id", "x-goog-request-id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// RetryAfter is how long a caller was told to wait: in milliseconds, in seconds, or as a date (RFC 9110, section 10.2.3). What can't be
// read, or has passed, is 0; it is never more than a day.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	var wait time.Duration
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil {
		wait = atMost(ms / 1000)
	} else if s, err := strconv.ParseFloat(h.Get("retry-after"), 64); err == nil {
		wait = atMost(s)
	} else if at, err := http.ParseTime(h.Get("retry-after")); err == nil {
		wait = atMost(at.Sub(now).Seconds())
	}
	return wait
}

// atMost bounds seconds, before they overflow a Duration. What is no number is none.
func atMost(seconds float64) time.Duration {
	const day = 24 * 60 * 60
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, day) * float64(time.Second))
}

// Excerpt is the beginning of a text that may be long, or a page of HTML, on one line.
func Excerpt(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(llm.CleanString(s)), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
