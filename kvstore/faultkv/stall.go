package faultkv

import "context"

// stall is a time in which the store doesn't answer.
type stall struct {
	deaf bool
	over chan struct{}
}

// Stall makes each call that comes from now on hang until Heal, and then reach
// the engine: late, and perhaps when its caller has long gone. A call whose
// context ends returns with its error, and never reaches the engine; unless the
// stall is deaf, and contexts don't count.
func (f *Injector) Stall(deaf bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalled == nil {
		f.stalled = &stall{deaf: deaf, over: make(chan struct{})}
	}
}

// hang holds a call back while the store is stalled.
func (f *Injector) hang(ctx context.Context) error {
	f.mu.Lock()
	s := f.stalled
	f.mu.Unlock()
	if s == nil {
		return nil
	}
	ended := ctx.Done()
	if s.deaf {
		ended = nil
	}
	select {
	case <-s.over:
		return nil
	case <-ended:
		return ctx.Err()
	}
}
