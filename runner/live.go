package runner

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/fermata-ai/fermata/event"
)

// live carries what happens within the process and is not committed, or not
// yet: from the drive of a session and from reporters of progress to the drive
// and the followers of the session. All methods may be called from any
// goroutine.
type live struct {
	calls atomic.Int64 // of models
	mu    sync.Mutex   // guards feeds and the users of each; held over nothing that waits
	feeds map[string]*feed
}

// feed is that of one session, while it is driven or followed here. None who
// puts something into it waits for one who takes it. All methods may be called
// from any goroutine.
type feed struct {
	users int // guarded by live.mu

	mu       sync.Mutex // guards the rest; held over nothing that waits
	said     speech
	progress map[chan<- event.Progress]struct{} // of drives
	drives   int                                // here, of one after the other
	taps     map[*tap]struct{}                  // of followers
	pump     *pump                              // to other processes; may be nil
}

// open returns the feed of a session, until it is closed.
func (l *live) open(session string) (f *feed, close func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f = l.feeds[session]; f == nil {
		f = &feed{progress: map[chan<- event.Progress]struct{}{}, taps: map[*tap]struct{}{}}
		l.feeds[session] = f
	}
	f.users++
	return f, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.users--; f.users == 0 {
			delete(l.feeds, session)
		}
	}
}

// report puts progress into the feed of its session, if there is one.
func (l *live) report(session string, ev event.Progress) {
	l.mu.Lock()
	f := l.feeds[session]
	l.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.progress {
		ev := ev
		ev.Progress.Data = bytes.Clone(ev.Progress.Data) // each receiver owns its copy
		select {
		case ch <- ev:
		default: // the latest progress is in the store
		}
	}
	f.queue(event.Clone(ev))
}

// begins tells the followers that a body begins, before it does. So they are
// told before they can see what came of it.
func (l *live) begins(session string, ev event.Started) {
	l.mu.Lock()
	f := l.feeds[session]
	l.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue(ev)
}

// reports returns a channel with the progress of the session, until stop. What
// doesn't fit it is dropped.
func (f *feed) reports() (c <-chan event.Progress, stop func()) {
	ch := make(chan event.Progress, 16)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.progress[ch] = struct{}{}
	f.drives++
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drives--
		delete(f.progress, ch)
	}
}

// followed reports whether the session is followed here, or may be elsewhere by
// what is published.
func (f *feed) followed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.taps) > 0 || f.pump != nil
}

// hear takes what a drive shows its caller. What is committed doesn't count:
// followers have it from the store.
func (f *feed) hear(ev event.Event) {
	switch ev := ev.(type) {
	case event.TextDelta:
		f.say(false, ev.Delta)
	case event.ReasoningDelta:
		f.say(true, ev.Delta)
	case event.Retry:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said.end(false)
		f.queue(ev)
		if f.pump != nil && len(f.pump.retries) < maxQueued {
			f.pump.retries = append(f.pump.retries, retried{f.said.part(), ev})
		}
		f.signal()
	}
}

// queue leaves an event for the followers. The caller holds the lock. They only
// read it.
func (f *feed) queue(ev event.Event) {
	for t := range f.taps {
		if len(t.events) == maxQueued {
			t.events = t.events[1:]
		}
		t.events = append(t.events, ev)
		t.signal()
	}
}

// maxQueued is how many events wait for one follower. Of more the oldest are
// lost: progress, of which the latest is stored, and retries, of which the
// follower sees that what was said is void.
const maxQueued = 64

// wake has all followers look.
func (f *feed) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signal()
}

// signal is wake for a caller that holds the lock. It wakes the pump as well.
func (f *feed) signal() {
	for t := range f.taps {
		t.signal()
	}
	if f.pump != nil {
		select {
		case f.pump.wake <- struct{}{}:
		default:
		}
	}
}
