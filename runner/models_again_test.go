package runner

import (
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
)

func TestRetryAfter(t *testing.T) {
	limited := &llm.Error{Kind: llm.ErrRateLimited, RetryAfter: time.Hour}
	r := agent.Retry{Failures: 2, First: time.Second, Most: 4 * time.Second, Patience: time.Hour}
	for name, c := range map[string]struct {
		failures int
		since    time.Duration
		err      error
		least    time.Duration
		ok       bool
	}{
		"the first":                         {1, 0, &llm.Error{Kind: llm.ErrNetwork}, time.Second / 2, true},
		"what the provider asked for":       {1, 0, limited, time.Hour, true},
		"the last one":                      {2, 2 * time.Hour, limited, time.Hour, true},
		"one more, with patience left":      {3, time.Hour - 1, limited, time.Hour, true},
		"one more, and patience is used up": {3, time.Hour, limited, 0, false},
		"many, with patience left": {1000, time.Minute, &llm.Error{Kind: llm.ErrNetwork},
			2 * time.Second, true},
		"what does not pass": {1, 0, &llm.Error{Kind: llm.ErrAuth}, 0, false},
	} {
		if wait, ok := retryAfter(r, c.failures, c.since, c.err); ok != c.ok || wait < c.least ||
			c.least < time.Hour && wait > 4*time.Second {
			t.Errorf("%s: %v, %v", name, wait, ok)
		}
	}
}
