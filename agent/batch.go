package agent

import "context"

// Batch runs functions side by side, at most a fixed number at once, each under a name and a context of its own. Its methods
// are for one goroutine, the one that also receives from Done.
type Batch struct {
	running map[string]context.CancelCauseFunc
	done    chan string
	limit   int
}

// NewBatch makes a batch that runs at most limit functions at once.
func NewBatch(limit int) *Batch {
	// A finished function never waits for somebody to hear of it.
	return &Batch{running: map[string]context.CancelCauseFunc{}, done: make(chan string, limit), limit: limit}
}

// Free says whether another function may start.
func (b *Batch) Free() bool { return len(b.running) < b.limit }

// Len is how many functions run.
func (b *Batch) Len() int { return len(b.running) }

// Running says whether the function called name runs.
func (b *Batch) Running(name string) bool {
	_, ok := b.running[name]
	return ok
}

// Start runs f. Its context ends with ctx, with Cancel, or when f has returned. The name is sent to Done even if f panics
// or ends its goroutine; recovering is f's own business.
func (b *Batch) Start(ctx context.Context, name string, f func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.running[name] = cancel
	go func() {
		defer func() {
			cancel(nil)
			b.done <- name
		}()
		f(ctx)
	}()
}

// Done receives the name of each function that ended. Whoever receives one calls Finished with it.
func (b *Batch) Done() <-chan string { return b.done }

// Finished frees the place of a function that Done told of.
func (b *Batch) Finished(name string) { delete(b.running, name) }

// Cancel ends the context of the function called name, if it runs.
func (b *Batch) Cancel(name string, cause error) {
	if cancel, ok := b.running[name]; ok {
		cancel(cause)
	}
}

// CancelAll ends the contexts of all that run.
func (b *Batch) CancelAll(cause error) {
	for _, cancel := range b.running {
		cancel(cause)
	}
}
