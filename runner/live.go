package runner

import (
	"bytes"
	"sync"

	"github.com/fermata-ai/fermata/event"
)

// live carries progress within the process, from where it is reported to those
// who show the session. Nothing waits for a slow one: what does not fit is
// dropped, the latest progress being in the store.
type live struct {
	mu          sync.Mutex
	subscribers map[string]map[chan<- liveEvent]struct{}
}

type liveEvent = event.Progress

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

func (l *live) publish(session string, ev liveEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.subscribers[session] {
		ev := ev
		ev.Progress.Data = bytes.Clone(ev.Progress.Data) // each has its own receiver
		select {
		case ch <- ev:
		default:
		}
	}
}
