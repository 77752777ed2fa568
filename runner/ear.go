package runner

import (
	"context"
	"slices"
	"sync"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
)

// ear is how the caller of a Run hears what happens below its session. A child
// that speaks while the caller looks at something else goes on: what it says
// waits here. Only if very much waits does the child, too, and then it takes no
// other child's place. All methods may be called from any goroutine.
type ear struct {
	more chan struct{} // gets a value when there is something to hear, or a child has ended
	gone chan struct{} // closed when the caller has left

	mu     sync.Mutex // guards the rest
	heard  []event.Nested
	weighs int           // what was heard, in bytes
	room   chan struct{} // closed, and made anew, when what was heard is taken
}

// earful is how much waits for the caller, in bytes, before children do. One
// event that is larger has an ear of its own.
const earful = 4 << 20

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

// wake has the callers look that listen to a root.
func (c *children) wake(root string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.trees[root]; t != nil {
		for _, e := range t.ears {
			e.wake()
		}
	}
}

// wake has the caller look.
func (e *ear) wake() {
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// hear takes an event. It waits while too much is there, and calls waits before
// that.
func (e *ear) hear(ev event.Nested, closing context.Context, waits func()) {
	weighs := weight(ev)
	for {
		e.mu.Lock()
		if e.weighs == 0 || e.weighs+weighs <= earful {
			e.heard, e.weighs = append(e.heard, ev), e.weighs+weighs
			e.mu.Unlock()
			e.wake()
			return
		}
		room := e.room
		e.mu.Unlock()
		waits()
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
	e.heard, e.weighs = nil, 0
	if len(heard) > 0 {
		close(e.room)
		e.room = make(chan struct{})
	}
	return heard
}

// weight is about how many bytes an event takes, by what may be large in it.
func weight(ev event.Event) int {
	const plain = 512 // with a path
	part := func(p llm.Part) int { return plain + llm.Message{Parts: []llm.Part{p}}.Size() }
	switch ev := ev.(type) {
	case event.Nested:
		return weight(ev.Event)
	case event.TextDelta:
		return plain + len(ev.Delta)
	case event.ReasoningDelta:
		return plain + len(ev.Delta)
	case event.Message:
		return plain + ev.Message.Size()
	case event.Call:
		return part(ev.Call)
	case event.Result:
		return part(ev.Result)
	case event.Artifact:
		return plain + len(ev.Artifact.Data)
	case event.Progress:
		return plain + len(ev.Progress.Message) + len(ev.Progress.Data)
	case event.Pause:
		a := &ev.Pause.Await
		return plain + len(ev.Pause.Arguments) + len(a.Prompt) + len(a.Schema) + len(a.Data)
	case event.End:
		weighs := plain
		for _, p := range ev.Pending {
			weighs += weight(event.Pause{Pause: p})
		}
		return weighs
	}
	return plain
}

// signal is more; nil: there is no ear.
func (e *ear) signal() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.more
}
