package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/llm"
)

// Answer is what a provider says is wrong: in place of a message, with an HTTP
// status, or within one that had begun well.
type Answer struct {
	// Status is that of HTTP. Below 400, the error came within an answer that
	// had begun well: Code and Type tell whose fault it is.
	Status int
	Header http.Header
	// Code and Type are the provider's own words for what is wrong, such as
	// "rate_limit_exceeded". Either may be empty.
	Code, Type string
	Message    string // for people
	// Cause is the SDK's error, for errors.As. Its text, which may be the whole
	// answer, isn't told.
	Cause error
}

// AnswerError returns what a provider says is wrong as an error of the right
// kind.
//
// The kind follows from the code where it tells more than the status, then from
// the message, then from the status.
func AnswerError(provider string, a Answer) *llm.Error {
	text, code := Excerpt(a.Message), cmp.Or(a.Code, a.Type)
	if code != "" {
		text = strings.TrimSuffix(code+": "+text, ": ")
	}
	status := a.Status
	if status < http.StatusBadRequest {
		status = statusOf(a.Code, a.Type)
		text = cmp.Or(text, "an error of which nothing more is said")
	} else {
		text = strings.TrimSuffix(fmt.Sprintf("HTTP status %d: %s", status, text), ": ")
	}
	e := &llm.Error{
		Kind: kindOf(status, a.Code, a.Type, a.Message), Provider: provider, RequestID: requestID(a.Header), RetryAfter: retryAfter(a.Header, time.Now()),
		Err: &told{text, a.Cause},
	}
	if e.Kind == llm.ErrRateLimited && e.RetryAfter == 0 {
		e.RetryAfter = limitReset(a.Header, time.Now())
	}
	return e
}

// told is an error in our words, with another's behind it.
type told struct {
	text  string
	cause error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.cause }

// statusOf returns the status that an error would have had which came too late
// for one. Words for what is the caller's fault are known, or look like it;
// whatever else there is, or comes to be, is the service's, and may pass.
func statusOf(words ...string) int {
	for _, w := range words {
		w = strings.ToLower(w)
		for _, of := range callers {
			if strings.Contains(w, of) {
				return http.StatusBadRequest
			}
		}
	}
	return http.StatusInternalServerError
}

// callers are parts of the words for what is the caller's fault: of Anthropic's
// errors, of the codes of a failed response at OpenAI ("invalid_prompt",
// "unsupported_image_media_type", "image_content_policy_violation"), and of
// google.rpc.Code, which has "unimplemented" for a method that a service lacks.
var callers = []string{
	"invalid_", "not_found", "image", "polic", "failed_precondition", "out_of_range",
	"unimplemented", "unsupported_",
}

// TransportError returns the error of a failure to reach a provider, or to read
// its answer to the end. The errors of an ended context stay as they are. A
// redirection that [Client] didn't follow is an invalid request.
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
	case errors.As(cause, &e), errors.Is(cause, context.Canceled),
		errors.Is(cause, context.DeadlineExceeded):
		return cause
	case errors.Is(cause, io.ErrUnexpectedEOF), errors.Is(cause, io.EOF):
		return &llm.Error{Kind: llm.ErrTruncated, Provider: provider, Err: cause}
	}
	return &llm.Error{Kind: llm.ErrNetwork, Provider: provider, Err: cause}
}

// Timeout returns the error of a generation that took longer than the adapter's
// Options.Timeout. It holds no context.DeadlineExceeded: the caller's context
// goes on.
func Timeout(provider string, after time.Duration) error {
	return &llm.Error{Kind: llm.ErrNetwork, Provider: provider,
		Err: fmt.Errorf("there is no whole message after %v, which is the options' Timeout", after)}
}

// ClientTimeout returns the error of a generation that took longer than the
// HTTP client's own Timeout. Like [Timeout], it is no end of the caller's
// context.
func ClientTimeout(provider string) error {
	return &llm.Error{Kind: llm.ErrNetwork, Provider: provider,
		Err: errors.New("there is no whole message within the Timeout of the HTTP client, Options.Client: raise it, or leave it to Options.Timeout")}
}

// Truncated returns the error of a stream that ended without its end marker.
func Truncated(provider string) error {
	return &llm.Error{Kind: llm.ErrTruncated, Provider: provider,
		Err: errors.New("the stream ended without its end marker")}
}

// Malformed returns the error of a stream that breaks its own rules.
func Malformed(provider, format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrMalformed, Provider: provider, Err: fmt.Errorf(format, args...)}
}

// Page returns the error of an answer with a good status that is no JSON at
// all, but the page of what stands between here and the service. It may pass,
// as it would with the status 502 that such pages should have.
func Page(provider, kind string, text []byte) error {
	return &llm.Error{Kind: llm.ErrOverloaded, Provider: provider,
		Err: fmt.Errorf("the answer, of type %q, isn't the service's; is the base URL right? It begins: %s", kind, Excerpt(string(text)))}
}

// Invalid returns the error of a request that the provider couldn't be sent.
func Invalid(provider, format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrInvalid, Provider: provider, Err: fmt.Errorf(format, args...)}
}

// What providers call things. The words are those of OpenAI's, Anthropic's and
// Google's references, and of compatible servers.
var (
	codes = map[string]llm.ErrorKind{
		"authentication_error": llm.ErrAuth, "invalid_api_key": llm.ErrAuth,
		"permission_error": llm.ErrAuth, "PERMISSION_DENIED": llm.ErrAuth,
		"UNAUTHENTICATED": llm.ErrAuth, "API_KEY_INVALID": llm.ErrAuth,
		"insufficient_quota": llm.ErrAuth, "billing_error": llm.ErrAuth,
		"rate_limit_error": llm.ErrRateLimited, "rate_limit_exceeded": llm.ErrRateLimited,
		"RESOURCE_EXHAUSTED": llm.ErrRateLimited,
		"overloaded_error":   llm.ErrOverloaded, "UNAVAILABLE": llm.ErrOverloaded,
		"server_is_overloaded": llm.ErrOverloaded, "slow_down": llm.ErrOverloaded,
		"api_error": llm.ErrOverloaded, "server_error": llm.ErrOverloaded,
		"INTERNAL": llm.ErrOverloaded, "timeout_error": llm.ErrOverloaded,
		"DEADLINE_EXCEEDED":       llm.ErrOverloaded,
		"context_length_exceeded": llm.ErrContextTooLong,
		"request_too_large":       llm.ErrContextTooLong,
		"string_above_max_length": llm.ErrContextTooLong,
		"content_filter":          llm.ErrRefused, "content_policy_violation": llm.ErrRefused,
		"invalid_prompt": llm.ErrRefused,
	}
	tooLong = []string{
		"prompt is too long", "maximum context length", "context window", "context length",
		"context_length", "exceeds the maximum number of tokens",
		"input token count", "too many tokens", "exceeds the available context size",
	}
	badKey = []string{"api key not valid", "api key expired", "incorrect api key",
		"invalid api key", "invalid x-api-key"}
)

func kindOf(status int, code, typ, message string) llm.ErrorKind {
	client := status >= 400 && status < 500
	for _, word := range []string{code, typ} {
		// A status of the caller's fault says more than a word for the
		// service's: Ollama calls a model that isn't there an api_error.
		if kind, ok := codes[word]; ok && !(client && kind == llm.ErrOverloaded) {
			return kind
		}
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

// Traced returns an error with the id of the request that it ended, from the
// answer's header, where it has none yet.
func Traced(err error, h http.Header) error {
	var e *llm.Error
	id := requestID(h)
	if id == "" || !errors.As(err, &e) || e.RequestID != "" {
		return err
	}
	traced := *e
	traced.RequestID = id
	return &traced
}

func requestID(h http.Header) string {
	for _, name := range []string{"x-request-id", "request-id", "x-goog-request-id",
		"apim-request-id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// retryAfter returns how long a caller was told to wait: in milliseconds, in
// seconds, or as a date (RFC 9110, section 10.2.3). What can't be read, or has
// passed, is 0; it is never more than a day.
func retryAfter(h http.Header, now time.Time) time.Duration {
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

// atMost bounds seconds, before they overflow a Duration. What is no number is
// none.
func atMost(seconds float64) time.Duration {
	const day = 24 * 60 * 60
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, day) * float64(time.Second))
}

// Excerpt returns the beginning of a text that may be long, or a page of HTML,
// on one line. [Secrets.Text] knows a secret that it cuts.
func Excerpt(s string) string {
	const most = 300
	return excerpt.To(strings.Join(strings.Fields(modeltext.CleanString(s)), " "), most)
}
