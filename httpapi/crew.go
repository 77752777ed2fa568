package httpapi

import (
	"context"
	"fmt"
	"sync"

	"github.com/fermata-ai/fermata/runner"
)

// crew is what goes on beside the requests of a moment: streams, and the runs
// that requests have begun. It bounds both for each user, and ends them. All
// methods may be called from any goroutine.
type crew struct {
	limits   Streams
	runs     context.Context // of the runs; ends when Close has waited long enough
	end      context.CancelFunc
	draining chan struct{} // closed when streams are to end

	mu      sync.Mutex // guards the rest
	closing bool
	at      map[place]int
	total   int           // of runs
	left    chan struct{} // closed, and made anew, when one of them leaves
}

// place is what a user's streams, or runs, are counted under.
type place struct {
	user runner.Actor
	run  bool
}

func (c *crew) begin(limits Streams) {
	c.limits, c.draining, c.at = limits, make(chan struct{}), map[place]int{}
	c.left = make(chan struct{})
	c.runs, c.end = context.WithCancel(context.Background())
}

// refuses returns the refusal of new runs, once the handler is to end.
func (c *crew) refuses() error {
	select {
	case <-c.draining:
		return refuse("closing", "the service is about to stop; another one takes its place")
	default:
		return nil
	}
}

// enter counts a stream, or a run, until it leaves.
func (c *crew) enter(p place) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.run && c.closing:
		return nil, c.refuses()
	case c.at[p] >= c.limits.PerUser:
		return nil, refuse("too_many_streams", fmt.Sprintf("a user has at most %d streams, and as many "+
			"runs that requests have begun", c.limits.PerUser))
	case p.run && c.total >= c.limits.Runs:
		return nil, refuse("unavailable", "as many runs go on here as may")
	}
	c.at[p]++
	if p.run {
		c.total++
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.at[p]--; c.at[p] == 0 {
			delete(c.at, p)
		}
		if p.run {
			c.total--
		}
		close(c.left)
		c.left = make(chan struct{})
	}, nil
}

// drain has streams end, and refuses new runs.
func (c *crew) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.closing = true
		close(c.draining)
	}
}

// wait waits until no run, and no stream, goes on any more, or until ctx ends.
func (c *crew) wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		done, left := len(c.at) == 0, c.left
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drain prepares the end: new runs are refused with a 503, /ready fails, and
// streams end with a hint when to connect again. Runs that go on, go on. It may
// be called again.
//
//	server.RegisterOnShutdown(api.Drain)
func (h *Handler) Drain() { h.crew.drain() }

// Close drains, and waits until all streams have ended, and the runs that
// requests have begun. When ctx ends it interrupts the runs that are left, which
// workers carry on, and returns the error of ctx: the runner's Close, which comes
// after it, waits for what they still do. A client that reads slowly keeps its
// stream for Streams.Write at most.
func (h *Handler) Close(ctx context.Context) error {
	h.Drain()
	defer h.crew.end()
	return h.crew.wait(ctx)
}
