package httpin

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Rate is how many requests are taken. The zero value takes all.
type Rate struct {
	PerSecond float64
	Burst     int // how many at once; zero: one second's, and at least 1
}

// DefaultRemembered is of how many names a Limiter knows, unless told.
const DefaultRemembered = 10_000

// Limiter bounds the requests of each of some kind. The nil one takes all.
type Limiter struct {
	of   string
	rate Rate

	mu    sync.Mutex // guards known, not what is in it
	known *simplelru.LRU[string, *rate.Limiter]
}

// NewLimiter returns a limiter of each of a kind. It remembers as many as
// remembered says. The zero Rate makes a nil one.
func NewLimiter(of string, r Rate, remembered int) (*Limiter, error) {
	switch {
	case r == Rate{}:
		return nil, nil
	case !(r.PerSecond > 0) || math.IsInf(r.PerSecond, 0) || r.Burst < 0:
		return nil, fmt.Errorf("the limit of one %s, %v a second and %d at once, takes nothing or "+
			"everything", of, r.PerSecond, r.Burst)
	}
	if r.Burst == 0 {
		r.Burst = max(1, int(min(r.PerSecond, math.MaxInt32)))
	}
	known, err := simplelru.NewLRU[string, *rate.Limiter](remembered, nil)
	return &Limiter{of: of, rate: r, known: known}, err
}

// Take counts a request, or refuses it with a [*Limited].
func (l *Limiter) Take(name string, now time.Time) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	one, ok := l.known.Get(name)
	if !ok {
		one = rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)
		l.known.Add(name, one)
	}
	l.mu.Unlock()
	r := one.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now) // a request that is refused doesn't push the others back
		return &Limited{l.of, wait}
	}
	return nil
}
