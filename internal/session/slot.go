package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrGoesOn is the error of a commit whose caller's context ended before the
// engine had answered. The drive goes on with it.
var ErrGoesOn = errors.New("session: the commit goes on without its caller")

// errCutOff is what Settled tells of a goroutine that the engine has ended.
var errCutOff = errors.New("session: the storage engine panicked, or ended the goroutine that had called it")

// slot is the right to change a drive's head, which one goroutine has at a
// time. It is awaited with a context, and no lock is held over the engine. A
// caller that can't wait any longer leaves: what it was about to do is left to
// the one who has the slot, and what it had begun to a goroutine that carries it
// on. So a caller is back at once although the engine hangs; and what was to be
// stored is stored, if the engine answers while the lease lasts.
//
// All methods may be called from any goroutine, but use and goesOn, which are
// for the one that has the slot.
type slot struct {
	of      changer
	lasting context.Context // of what goes on without its caller
	place   chan struct{}   // of one: the goroutine that has put the value has the slot

	mu     sync.Mutex // guards the rest; held over nothing that waits
	later  []task     // for the goroutine that has the slot, when it is done
	failed error      // of those
	behind context.CancelFunc
}

// changer is what the slot's owner does with it.
type changer interface {
	// perform does a task, or goes on with one that was begun. ErrLeft says
	// that ctx has ended first.
	perform(ctx context.Context, t task, begun bool) error
	// cutOff ends a change whose goroutine was ended.
	cutOff()
	// isLost reports whether nothing is to go on any more.
	isLost() bool
}

// task is something that the drive is to do with its slot.
type task struct {
	ts    []Transition // to commit
	drop  bool         // what rides
	leave bool         // then the drive ends
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

// use calls f with the slot, and gives it up. Where f returns errLeft, the slot
// is still had, for goesOn.
func (s *slot) use(f func() error) error {
	returned := false
	defer s.unwind(&returned)
	err := f()
	returned = true
	if !errors.Is(err, errLeft) {
		s.exit()
	}
	return err
}

// unwind gives the slot up where what its goroutine did with it has not
// returned: the engine has panicked, or ended the goroutine. The drive goes on,
// and finds out what is stored.
func (s *slot) unwind(returned *bool) {
	if !*returned {
		s.of.cutOff()
		s.note(errCutOff)
		s.exit()
	}
}

// exit gives the slot up, when what others have left to do is done.
func (s *slot) exit() {
	if s.free() {
		return
	}
	go s.work(s.alive(), nil)
}

// free gives the slot up, unless there is something left to do.
func (s *slot) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.later) > 0 {
		return false
	}
	<-s.place
	return true
}

// leaveTo leaves a task to the goroutine that has the slot, or gets it next.
func (s *slot) leaveTo(ctx context.Context, t task) error {
	s.mu.Lock()
	s.later = append(s.later, t)
	s.mu.Unlock()
	if s.tryEnter() { // it was given up meanwhile
		s.exit()
	}
	return fmt.Errorf("%w: %w", ErrGoesOn, context.Cause(ctx))
}

// goesOn leaves the slot, and a task that was begun with it, to a goroutine.
func (s *slot) goesOn(ctx context.Context, t task) error {
	go s.work(s.alive(), &t)
	return fmt.Errorf("%w: %w", ErrGoesOn, context.Cause(ctx))
}

// alive returns a context for what goes on without its caller. It ends with
// abandon.
func (s *slot) alive() context.Context {
	ctx, cancel := context.WithCancel(s.lasting)
	s.mu.Lock()
	if s.behind != nil {
		s.behind()
	}
	s.behind = cancel
	s.mu.Unlock()
	if s.of.isLost() { // looked at after it can be abandoned
		cancel()
	}
	return ctx
}

// work goes on with a task that was begun, and with all that others left, and
// gives the slot up.
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

// note keeps an error whose caller has left.
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

// settled waits until nothing is under way any more of what ErrGoesOn was told,
// and returns what became of it.
func (s *slot) settled(ctx context.Context) error {
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
