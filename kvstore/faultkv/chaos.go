package faultkv

import (
	"context"
	"math/rand/v2"
	"time"
)

// Chaos makes faults at random. What happens to the n-th Apply follows from
// Seed and n alone; the chances are from 0 to 1, and together not above 1. The
// zero Chaos does nothing.
type Chaos struct {
	Seed     uint64
	Fail     float64 // as FailAt
	Lose     float64 // as LoseAt
	Defer    float64 // as DeferAt
	Conflict float64 // as ConflictAt
	// Overtaken is the chance that an Apply is held back until a later one, of
	// another caller, has been applied; for Delay at most, so that a caller who
	// is alone goes on.
	Overtaken float64
	// Delay is the most that an Apply waits on its way to the engine. Zero:
	// none does, and none is overtaken.
	Delay time.Duration
}

// fate is what happens to one Apply.
type fate struct {
	kind      kind
	die       bool
	overtaken bool
	delay     time.Duration
}

func (c Chaos) fate(call Call) fate {
	if c == (Chaos{}) {
		return fate{}
	}
	r := rand.New(rand.NewPCG(c.Seed, uint64(call.Number)))
	var x fate
	switch p := r.Float64(); {
	case p < c.Fail:
		x.kind = fail
	case p < c.Fail+c.Lose:
		x.kind = lose
	case p < c.Fail+c.Lose+c.Defer:
		x.kind = deferred
	case p < c.Fail+c.Lose+c.Defer+c.Conflict:
		x.kind = conflict
	}
	if c.Delay > 0 {
		if x.overtaken = r.Float64() < c.Overtaken; x.overtaken {
			x.delay = c.Delay
		} else {
			x.delay = time.Duration(r.Int64N(int64(c.Delay)))
		}
	}
	return x
}

// wait holds an Apply back for as long as its fate says.
func (f *Injector) wait(ctx context.Context, x fate) error {
	if x.delay == 0 {
		return nil
	}
	var passed chan struct{}
	if x.overtaken {
		f.mu.Lock()
		passed = f.passed
		f.mu.Unlock()
	}
	timer := time.NewTimer(x.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-passed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
