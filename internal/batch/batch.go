// Package batch runs the tool calls of a turn side by side.
//
// It knows functions and names, and no calls: what they do, and in which order
// they start, is the runner's.
package batch

import (
	"context"
)

// Batch runs functions side by side, each under a name and a context of its
// own. One goroutine, the loop's, calls its methods and receives from Done and
// Handed. No other one touches running and idle, which therefore need no lock.
//
// The goroutines that run functions are kept from one function to the next,
// with the stacks that they have grown, until Close. They touch the channels
// alone: they receive from work, and send to handed or done. Only the loop
// sends to work, and closes it.
type Batch struct {
	running map[string]context.CancelCauseFunc
	work    chan job
	handed  chan Handed
	done    chan string
	idle    int // goroutines that wait for work, or soon do
}

// job is a function that runs.
type job struct {
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	f      func(context.Context)
	rest   func(handed bool)
}

// Handed is a function that has returned, and whose rest is left to the loop.
type Handed struct {
	Name string
	rest func(handed bool)
}

// Rest runs the function's rest, which is told that it was handed over.
func (h *Handed) Rest() { h.rest(true) }

// New returns an empty batch. Most is the room of done: so many functions may
// finish without waiting for the loop to receive.
func New(most int) *Batch {
	return &Batch{
		running: map[string]context.CancelCauseFunc{},
		work:    make(chan job),
		handed:  make(chan Handed),
		done:    make(chan string, most),
	}
}

// Len returns how many functions run.
func (b *Batch) Len() int { return len(b.running) }

// Running reports whether the function called name runs.
func (b *Batch) Running(name string) bool {
	_, ok := b.running[name]
	return ok
}

// Start runs f, and then rest, also if f ends its goroutine. The context ends
// with ctx, with Cancel, or after rest.
//
// If the loop waits to receive from Handed when f returns, it gets rest to run:
// that saves waking it later. Otherwise rest runs at once, in f's goroutine,
// and then the name is sent to Done. F and rest must not panic.
func (b *Batch) Start(
	ctx context.Context, name string, f func(context.Context), rest func(handed bool),
) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.running[name] = cancel
	j := job{name, ctx, cancel, f, rest}
	if b.idle > 0 {
		b.idle--
		b.work <- j
		return
	}
	go b.serveFrom(j)
}

// serve runs what comes, until Close.
func (b *Batch) serve() {
	for j := range b.work {
		b.run(&j)
	}
}

// serveFrom runs a function, and then what comes.
func (b *Batch) serveFrom(j job) {
	b.run(&j)
	b.serve()
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

// Handed receives the functions that returned while the loop waited for it. The
// loop runs the Rest of each, and then calls Finished with its name.
func (b *Batch) Handed() <-chan Handed { return b.handed }

// Done receives the name of each other function, when its rest has run. The
// loop calls Finished with it.
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
