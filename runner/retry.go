package runner

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
)

// retryAfter returns how long to wait before the model is called again, after
// so many failures in a row, the first of which was so long ago. Ok is false if
// the model is not called again.
func retryAfter(
	r agent.Retry, failures int, since time.Duration, err error,
) (wait time.Duration, ok bool) {
	var e *llm.Error
	if failures > r.Failures && since >= r.Patience || !errors.As(err, &e) || !e.Retryable() {
		return 0, false
	}
	wait = r.First << min(failures-1, 30)
	if wait > r.Most || wait <= 0 {
		wait = r.Most
	}
	wait -= time.Duration(rand.Int64N(int64(wait)/2 + 1))
	return max(wait, e.RetryAfter), true
}
