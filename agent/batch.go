package agent

import (
	"context"
	"maps"
	"slices"
)

// Batch runs functions side by side, each under a name and a context of its own. Its methods are for one goroutine, the one that also
// receives from Done and Handed.
//
// Its goroutines are kept from one function to the next, with the stacks that they have grown, until Close.
type Batch struct {
	running map[string]context.CancelCauseFunc
	work    chan job
	handed  chan Handed
	done    chan string
	idle    int // goroutines that wait for work, or soon will
}

// job is a function that runs.
type job struct {
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	f      func(context.Context)
	rest   func(handed bool)
}

// Handed is a function that has returned, and whose rest is left to whoever received this.
type Handed struct {
	Name string
	rest func(handed bool)
}

// Rest runs the function's rest, which is told that it was handed over.
func (h *Handed) Rest() { h.rest(true) }

// NewBatch makes an empty batch.
func NewBatch() *Batch {
	return &Batch{
		running: map[string]context.CancelCauseFunc{},
		work:    make(chan job),
		handed:  make(chan Handed),
		// A finished function doesn't wait for somebody to hear of it, unless very many do.
		done: make(chan string, 2*MaxCalls),
	}
}

// Len is how many functions run.
func (b *Batch) Len() int { return len(b.running) }

// Names lists the functions that run.
func (b *Batch) Names() []string { return slices.Collect(maps.Keys(b.running)) }

// Running says whether the function called name runs.
func (b *Batch) Running(name string) bool {
	_, ok := b.running[name]
	return ok
}

// Start runs f, and then rest, also if f ends its goroutine. The context ends with ctx, with Cancel, or after rest.
//
// If somebody waits to receive from Handed when f returns, rest is left to them: it saves waking them for it later. Otherwise
// rest runs at once, and then the name is sent to Done. F and rest must not panic.
func (b *Batch) Start(ctx context.Context, name string, f func(context.Context), rest func(handed bool)) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.running[name] = cancel
	j := job{name, ctx, cancel, f, rest}
	if b.idle > 0 {
		b.idle--
		b.work <- j
		return
	}
	go func() {
		b.run(&j)
		b.serve()
	}()
}

// serve runs what comes, until Close.
func (b *Batch) serve() {
	for j := range b.work {
		b.run(&j)
	}
}

func (b *Batch) run(j *job) {
	returned, handed := false, false
	defer func() {
		if !returned { // runtime.Goexit ends the goroutine: another one takes its place
			go b.serve()
		}
		if !handed {
			j.rest(false)
			j.cancel(nil)
			b.done <- j.name
		}
	}()
	j.f(j.ctx)
	returned = true
	select {
	case b.handed <- Handed{j.name, j.rest}:
		handed = true
	default:
	}
}

// Handed receives the functions that returned while somebody waited for it. Whoever receives one runs its Rest, and then calls
// Finished with its name.
func (b *Batch) Handed() <-chan Handed { return b.handed }

// Done receives the name of each other function, when its rest has run. Whoever receives one calls Finished with it.
func (b *Batch) Done() <-chan string { return b.done }

// Finished frees the place of a function that Handed or Done told of.
func (b *Batch) Finished(name string) {
	b.Cancel(name, nil)
	delete(b.running, name)
	b.idle++
}

// Cancel ends the context of the function called name, if it runs.
func (b *Batch) Cancel(name string, cause error) {
	if cancel, ok := b.running[name]; ok {
		cancel(cause)
	}
}

// Close ends the batch's goroutines. No function may run any more.
func (b *Batch) Close() { close(b.work) }
