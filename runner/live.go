package runner

import (
	"bytes"
	"sync"

	"github.com/fermata-ai/fermata/event"
)

// live carries progress within the process, from its reporter to the drives and
// followers of the session. No reporter waits for a slow one: what doesn't fit
// its channel is dropped, since the latest progress is in the store. All
// methods may be called from any goroutine.
type live struct {
	mu          sync.Mutex // guards the rest; held over nothing that waits
	subscribers map[string]map[chan<- liveEvent]struct{}
}

type liveEvent = event.Progress

// subscribe returns a channel with the progress of a session's calls.
func (l *live) subscribe(session string) (c <-chan liveEvent, stop func()) {
	ch := make(chan liveEvent, 16)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribers[session] == nil {
		l.subscribers[session] = map[chan<- liveEvent]struct{}{}
	}
	l.subscribers[session][ch] = struct{}{}
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers[session], ch)
		if len(l.subscribers[session]) == 0 {
			delete(l.subscribers, session)
		}
	}
}

// publish sends progress to all that subscribe to its session.
func (l *live) publish(session string, ev liveEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.subscribers[session] {
		ev := ev
		ev.Progress.Data = bytes.Clone(ev.Progress.Data) // each receiver owns its copy
		select {
		case ch <- ev:
		default:
		}
	}
}
