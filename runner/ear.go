package runner

import (
	"context"
	"slices"
	"sync"

	"github.com/fermata-ai/fermata/event"
)

// ear is how the caller of a Run hears what happens below its session. A child
// that speaks while the caller looks at something else goes on: what it says
// waits here. Only if very much waits does the child, too. All methods may be
// called from any goroutine.
type ear struct {
	more chan struct{} // gets a value when there is something to hear, or a child has ended
	gone chan struct{} // closed when the caller has left

	mu    sync.Mutex // guards the rest
	heard []event.Nested
	room  chan struct{} // closed, and made anew, when what was heard is taken
}

// earful is how many events wait for the caller at most.
const earful = 4096

// listen gives the caller of a root's run an ear.
func (c *children) listen(root string) (e *ear, stop func()) {
	e = &ear{more: make(chan struct{}, 1), gone: make(chan struct{}), room: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tree(root)
	t.ears = append(t.ears, e)
	return e, func() {
		close(e.gone)
		c.mu.Lock()
		defer c.mu.Unlock()
		t := c.trees[root]
		t.ears = slices.DeleteFunc(t.ears, func(o *ear) bool { return o == e })
		c.drop(root)
	}
}

// wake has the caller look.
func (e *ear) wake() {
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// hear takes an event. It waits while too many are there.
func (e *ear) hear(ev event.Nested, closing context.Context) {
	for {
		e.mu.Lock()
		if len(e.heard) < earful {
			e.heard = append(e.heard, ev)
			e.mu.Unlock()
			e.wake()
			return
		}
		room := e.room
		e.mu.Unlock()
		select {
		case <-room:
		case <-e.gone:
			return
		case <-closing.Done():
			return
		}
	}
}

// take returns what was heard since the last time. E may be nil.
func (e *ear) take() []event.Nested {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	if len(heard) == earful {
		close(e.room)
		e.room = make(chan struct{})
	}
	return heard
}

// signal is more; nil: there is no ear.
func (e *ear) signal() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.more
}
