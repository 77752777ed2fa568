// Package retry makes a tool of another one that is tried again when it fails.
//
// Between two tries the call waits in the store, and holds no goroutine: a try
// may be hours after the one before it, in another process. The waits grow
// exponentially, by chance a bit longer or shorter. All tries of one entry have
// the same [tool.Call.IdempotencyKey], and the same answer if the call has one.
// Nothing from outside ends such a wait but the cancellation of the call.
//
// It is for failures that pass: a service that is overloaded, a network that is
// down. It isn't for jobs that are polled, which are no failures (a
// [tool.ReasonTimer] is for these), nor for calls that a crash has cut off,
// which is decided by [tool.Spec.Effect]. Models have tries of their own.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/tool"
)

// Where things are: retry.go (the tool), errors.go (what a tool's function says
// of a failure).

// Policy is how often a tool is tried, and when. Nil means the defaults.
type Policy struct {
	// Tries is how often the tool is tried, the first one included; zero: 5, at
	// most MaxTries.
	Tries int
	// Initial is how long the second try waits after the first; zero: 1 s. Each
	// further wait is Multiplier times as long (zero: 2), and Max at most (zero:
	// 5 min). Both are up to MaxWait.
	Initial    time.Duration
	Multiplier float64
	Max        time.Duration
	// Jitter is by what share of itself a wait is longer or shorter, at random:
	// below 1. Zero: 0.5. Negative: none.
	Jitter float64
	// Within bounds all tries: none begins later than that after the first has
	// failed. Zero: there is no bound.
	Within time.Duration
	// TryTimeout bounds the context of each try; zero: no bound. A try that
	// returns because of it has failed in a way that may pass. A function that
	// ignores its context is bounded by [tool.Spec.Timeout] alone, and then not
	// tried again: it may still run.
	TryTimeout time.Duration
	// If decides which errors are tried again; nil: see [Tool]. It isn't asked
	// about those marked by [Permanent], [Transient] or [After].
	If func(error) bool
}

// MaxTries is the most of Policy.Tries.
const MaxTries = 100

// MaxWait is the longest wait between two tries, before jitter.
const MaxWait = 365 * 24 * time.Hour

// Tool returns a tool that is t, and whose failures are tried again.
//
// If t is read-only or idempotent, all errors of its function are, but those
// marked by [Permanent]. If its effect is once, the try that has failed may have
// had its effect: then only those are that are marked by [Transient] or [After],
// by which the function states that it had none. What ends the run, or refuses
// the call, is never tried again, and nor is a panic. The model reads the error
// of the last try, and how many there were.
//
// A token that a try has made is for the pause that this try asks for. The next
// try makes another one. So a function that may fail after it has begun an
// outside job, which then answers, pauses with a key ([tool.Await.Key]).
func Tool(t tool.Tool, p *Policy) (tool.Tool, error) {
	if t == nil {
		return nil, errors.New("retry: the tool is nil")
	}
	if p == nil {
		p = &Policy{}
	}
	spec := t.Spec()
	r := &retrying{Tool: t, policy: *p, once: spec.Effect == tool.Once}
	if err := r.policy.normal(); err != nil {
		return nil, fmt.Errorf("retry: tool %q: %w", spec.Name, err)
	}
	_, twice := tool.As[*retrying](t)
	_, acts := tool.As[tool.Acting](t)
	switch {
	case twice:
		return nil, fmt.Errorf("retry: tool %q is tried again already", spec.Name)
	case acts:
		return nil, fmt.Errorf("retry: the calls of tool %q act on handles, and begin what a "+
			"try would begin twice: have the work that a handle does tried again", spec.Name)
	}
	return r, nil
}

func (p *Policy) normal() error {
	p.Tries = cmp.Or(p.Tries, 5)
	p.Initial = cmp.Or(p.Initial, time.Second)
	p.Multiplier = cmp.Or(p.Multiplier, 2)
	p.Max = cmp.Or(p.Max, max(5*time.Minute, p.Initial))
	p.Jitter = max(cmp.Or(p.Jitter, .5), 0)
	switch {
	case p.Tries < 1 || p.Tries > MaxTries:
		return fmt.Errorf("%d tries: from 1 to %d can be made", p.Tries, MaxTries)
	case p.Initial < 0 || p.Within < 0 || p.TryTimeout < 0:
		return errors.New("the policy has a negative time")
	case p.Max > MaxWait:
		return fmt.Errorf("the longest wait is %v: it can be %v", p.Max, MaxWait)
	case p.Max < p.Initial:
		return fmt.Errorf("the longest wait, %v, is shorter than the first, %v", p.Max, p.Initial)
	case !(p.Multiplier >= 1) || !(p.Jitter < 1): // NaN is refused, too
		return fmt.Errorf("the multiplier is %v and the jitter %v: the one is 1 at least, "+
			"the other below 1", p.Multiplier, p.Jitter)
	}
	return nil
}

// wait returns how long to wait after so many tries that failed.
func (p *Policy) wait(failed int) time.Duration {
	b := backoff.ExponentialBackOff{InitialInterval: p.Initial, Multiplier: p.Multiplier,
		MaxInterval: p.Max}
	for range failed - 1 {
		b.NextBackOff()
	}
	b.RandomizationFactor = p.Jitter
	return max(b.NextBackOff(), time.Millisecond)
}

// retrying is a tool that is tried again.
type retrying struct {
	tool.Tool
	policy Policy
	once   bool
}

// Unwrap returns the tool that is tried.
func (r *retrying) Unwrap() tool.Tool { return r.Tool }

// Spec is the tool's own; in addition, it waits.
func (r *retrying) Spec() tool.Spec {
	s := r.Tool.Spec()
	s.MayPause = true
	return s
}

// Execute makes one try. A failure that may pass becomes a pause.
func (r *retrying) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	began := time.Now()
	exec, err := r.try(ctx, call)
	if err == nil {
		return exec, nil
	}
	failed := call.Tried.Count + 1
	if ctx.Err() != nil || !r.mayPass(err) {
		return tool.Execution{}, told(err, failed)
	}
	wait := r.policy.wait(failed)
	if after, ok := errors.AsType[*afterError](err); ok {
		wait = max(wait, after.wait)
	}
	if failed >= r.policy.Tries || r.isTooLate(call.Tried, time.Since(began)+wait) {
		return tool.Execution{}, told(err, failed)
	}
	return tool.Execution{Await: &tool.Await{Reason: tool.ReasonRetry, Timeout: wait,
		Prompt: fmt.Sprintf("Try %d of %d failed, and the next one begins by itself: %s",
			failed, r.policy.Tries, excerpt.InBrief(err.Error()))}}, nil
}

// isTooLate reports whether the next try would be out of bounds, so long after
// this one has begun. The times are those of the runtime's clock, and what has
// passed since is measured here.
func (r *retrying) isTooLate(t tool.Tried, next time.Duration) bool {
	passed := max(t.At.Sub(t.Since), 0) // a clock may have been set back
	return r.policy.Within > 0 && next > r.policy.Within-passed
}

// try makes one try, in its time.
func (r *retrying) try(ctx context.Context, call tool.Call) (tool.Execution, error) {
	if r.policy.TryTimeout == 0 {
		return r.Tool.Execute(ctx, call)
	}
	own, cancel := context.WithTimeout(ctx, r.policy.TryTimeout)
	defer cancel()
	return r.Tool.Execute(own, call)
}

// told returns an error as the model reads it after the last try.
func told(err error, tries int) error {
	if tries == 1 {
		return err
	}
	return fmt.Errorf("%w (it was tried %d times)", err, tries)
}
