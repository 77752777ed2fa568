package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// limitReset returns when a rate limit that an answer's header tells of is
// reset, as [retryAfter] does it: for services that tell no retry-after. Of
// several limits, as of requests and of tokens, it is the last one to be reset
// of those that are used up; where the header doesn't say which are, the first.
//
//	x-ratelimit-reset: 1767323045            x-ratelimit-remaining: 0
//	x-ratelimit-reset-tokens: 6m0s           x-ratelimit-remaining-tokens: 0
//	anthropic-ratelimit-requests-reset: 2026-01-02T03:04:05Z
func limitReset(h http.Header, now time.Time) time.Duration {
	var usedUp, first time.Duration
	for name := range h {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") {
			continue
		}
		wait := untilReset(h.Get(name), now)
		if left, err := strconv.ParseFloat(h.Get(strings.Replace(name, "reset", "remaining", 1)),
			64); err == nil && left <= 0 {
			usedUp = max(usedUp, wait)
		}
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	if usedUp > 0 {
		return usedUp
	}
	return first
}

// untilReset reads a time in one of the forms that services have for it:
// seconds, or a duration such as "2m59.56s", from now; seconds or milliseconds
// since 1970; or a date. What can't be read, or has passed, is 0; it is never
// more than a day.
func untilReset(s string, now time.Time) time.Duration {
	const epoch = 1e9 // so many seconds from now are no time to wait, but a time in this century
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case n >= 1000*epoch:
			n = n/1000 - float64(now.UnixMilli())/1000
		case n >= epoch:
			n -= float64(now.UnixMilli()) / 1000
		}
		return atMost(n)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return atMost(d.Seconds())
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return atMost(at.Sub(now).Seconds())
	}
	if at, err := http.ParseTime(s); err == nil {
		return atMost(at.Sub(now).Seconds())
	}
	return 0
}
