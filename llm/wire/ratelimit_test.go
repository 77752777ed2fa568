package wire

import (
	"net/http"
	"testing"
	"time"
)

func TestRateLimitsTellWhenToTryAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	const requests, tokens = "X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens"
	const requestsLeft, tokensLeft = "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Remaining-Tokens"
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":                 {header(), 0},
		"seconds":                 {header("X-RateLimit-Reset", "90"), 90 * time.Second},
		"a fraction":              {header("X-RateLimit-Reset", "0.25"), 250 * time.Millisecond},
		"seconds since 1970":      {header("X-RateLimit-Reset", "1767323105"), time.Minute},
		"milliseconds since 1970": {header("X-RateLimit-Reset", "1767323045500"), 500 * time.Millisecond},
		"a time that has passed":  {header("X-RateLimit-Reset", "1767323000"), 0},
		"a far time":              {header("X-RateLimit-Reset", "1777323000"), 24 * time.Hour},
		"a duration":              {header(requests, "2m59.5s"), 179500 * time.Millisecond},
		"milliseconds":            {header(requests, "120ms"), 120 * time.Millisecond},
		"a date":                  {header("Anthropic-Ratelimit-Requests-Reset", "2026-01-02T03:05:05Z"), time.Minute},
		"a date of HTTP":          {header("Ratelimit-Reset", "Fri, 02 Jan 2026 03:05:05 GMT"), time.Minute},
		"nonsense":                {header(requests, "soon", tokens, "NaN"), 0},
		"the one that is used up": {header(requests, "1h", requestsLeft, "5", tokens, "6m0s", tokensLeft, "0"), 6 * time.Minute},
		"both are used up":        {header(requests, "1m", requestsLeft, "0", tokens, "6m0s", tokensLeft, "0"), 6 * time.Minute},
		"nobody says which":       {header(requests, "1m", tokens, "6m0s"), time.Minute},
		"none is used up":         {header(requests, "1m", requestsLeft, "3", tokens, "6s", tokensLeft, "12"), 6 * time.Second},
		"used up, and in dates": {header("Anthropic-Ratelimit-Requests-Reset", "2026-01-02T03:04:06Z", "Anthropic-Ratelimit-Requests-Remaining", "9",
			"Anthropic-Ratelimit-Input-Tokens-Reset", "2026-01-02T03:04:35Z", "Anthropic-Ratelimit-Input-Tokens-Remaining", "0"), 30 * time.Second},
	} {
		if got := limitReset(c.header, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A limit's reset counts where the limit is what is wrong, and no retry-after
// says more.
func TestResetsOfLimitsAreForThoseWhoExceedThem(t *testing.T) {
	reset := http.Header{"X-Ratelimit-Reset": {"90"}}
	both := http.Header{"X-Ratelimit-Reset": {"90"}, "Retry-After": {"7"}}
	for name, c := range map[string]struct {
		answer Answer
		want   time.Duration
	}{
		"the limit is exceeded":            {Answer{Status: 429, Header: reset}, 90 * time.Second},
		"in the middle of a stream":        {Answer{Status: 200, Type: "rate_limit_error", Header: reset}, 90 * time.Second},
		"something else is wrong":          {Answer{Status: 500, Header: reset}, 0},
		"a retry-after says more":          {Answer{Status: 429, Header: both}, 7 * time.Second},
		"a retry-after, and overloaded":    {Answer{Status: 503, Header: both}, 7 * time.Second},
		"it is not the caller's to repair": {Answer{Status: 400, Header: reset}, 0},
	} {
		if got := AnswerError("acme", c.answer).RetryAfter; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
