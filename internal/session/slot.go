package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrGoesOn is the error of a commit whose caller's context ended before the
// engine had answered. The lease goes on with the commit.
var ErrGoesOn = errors.New("session: the commit goes on without its caller")

// errCutOff is what AwaitCommits returns for a goroutine that the engine has
// ended.
var errCutOff = errors.New(
	"session: the storage engine panicked, or ended the goroutine that had called it")

// slot is the right to change a lease's head. One goroutine has it at a time. A
// goroutine waits for the slot with a context, and no lock is held over the
// engine.
//
// A caller whose context ends waits no more. What it was about to do, it hands
// over to the goroutine that has the slot. What it had begun is carried on by a
// goroutine of its own. So a caller is back at once although the engine hangs,
// and what was to be stored is stored, if the engine answers while the lease
// lasts.
//
// All methods may be called from any goroutine, except use and goesOn, which
// are for the goroutine that has the slot.
type slot struct {
	of      changer
	lasting context.Context // of what goes on without its caller
	place   chan struct{}   // of size one: the goroutine that has filled it has the slot

	mu     sync.Mutex         // guards the rest; held over nothing that waits
	later  []task             // for the goroutine that has the slot, when it is done
	failed error              // of those
	behind context.CancelFunc // ends what goes on without its caller
}

// changer is what is done with the slot. Its first two methods are called by
// the goroutine that has it.
type changer interface {
	// perform does a task, or goes on with one that was begun. It returns
	// errUnderway if ctx has ended first.
	perform(ctx context.Context, t task, begun bool) error
	// cutOff ends a change whose goroutine was ended.
	cutOff()
	// isLost reports whether nothing is to go on any more.
	isLost() bool
}

// task is something to do with the slot.
type task struct {
	ts     []Transition // to commit
	drop   bool         // what rides
	giveUp bool         // then the lease is given up
}

func clone(ts []Transition) []Transition { return append([]Transition(nil), ts...) }

// enter takes the slot, and reports whether it got it before ctx ended.
func (s *slot) enter(ctx context.Context) bool {
	if s.tryEnter() {
		return true
	}
	select {
	case s.place <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// tryEnter takes the slot if it is free, and reports whether it was.
func (s *slot) tryEnter() bool {
	select {
	case s.place <- struct{}{}:
		return true
	default:
		return false
	}
}

// use calls f with the slot, and gives it up. If f returns errUnderway, the
// goroutine still has the slot, and must call goesOn.
func (s *slot) use(f func() error) error {
	returned := false
	defer s.unwind(&returned)
	err := f()
	returned = true
	if !errors.Is(err, errUnderway) {
		s.exit()
	}
	return err
}

// unwind gives the slot up if its goroutine has not returned from what it did:
// the engine has panicked, or ended the goroutine. The next one to have the
// slot finds out what is stored.
func (s *slot) unwind(returned *bool) {
	if !*returned {
		s.of.cutOff()
		s.note(errCutOff)
		s.exit()
	}
}

// exit gives the slot up. If tasks were handed over, a goroutine does them
// first.
func (s *slot) exit() {
	if s.free() {
		return
	}
	go s.work(s.alive(), nil)
}

// free gives the slot up, unless tasks were handed over.
func (s *slot) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.later) > 0 {
		return false
	}
	<-s.place
	return true
}

// handOver hands a task over to the goroutine that has the slot, or gets it
// next.
func (s *slot) handOver(ctx context.Context, t task) error {
	s.mu.Lock()
	s.later = append(s.later, t)
	s.mu.Unlock()
	if s.tryEnter() { // it was given up meanwhile
		s.exit()
	}
	return fmt.Errorf("%w: %w", ErrGoesOn, context.Cause(ctx))
}

// goesOn hands the slot, and a task that was begun with it, over to a
// goroutine.
func (s *slot) goesOn(ctx context.Context, t task) error {
	go s.work(s.alive(), &t)
	return fmt.Errorf("%w: %w", ErrGoesOn, context.Cause(ctx))
}

// alive returns a context for what goes on without its caller. The context ends
// with abandon, or with the next call of alive.
func (s *slot) alive() context.Context {
	ctx, cancel := context.WithCancel(s.lasting)
	s.mu.Lock()
	if s.behind != nil {
		s.behind()
	}
	s.behind = cancel
	s.mu.Unlock()
	if s.of.isLost() { // asked only now, so that no abandon is missed
		cancel()
	}
	return ctx
}

// work goes on with a task that was begun, does the tasks that were handed
// over, and gives the slot up. It runs in a goroutine of its own.
func (s *slot) work(ctx context.Context, begun *task) {
	returned := false
	defer s.unwind(&returned)
	if begun != nil {
		s.note(s.of.perform(ctx, *begun, true))
	}
	for !s.free() {
		s.mu.Lock()
		t := s.later[0]
		s.later = s.later[1:]
		s.mu.Unlock()
		s.note(s.of.perform(ctx, t, false))
	}
	returned = true
}

// note keeps an error whose caller waits no more.
func (s *slot) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = errors.Join(s.failed, err)
}

// abandon ends what goes on without its caller.
func (s *slot) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind != nil {
		s.behind()
	}
}

// awaitIdle waits until nothing is under way any more, and returns what became
// of what went on without its caller.
func (s *slot) awaitIdle(ctx context.Context) error {
	if !s.enter(ctx) {
		return context.Cause(ctx)
	}
	s.exit()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failed
	s.failed = nil
	return err
}

// busy reports whether a goroutine has the slot, perhaps without a caller.
func (s *slot) busy() bool { return len(s.place) > 0 }
