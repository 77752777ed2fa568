package session

import (
	"sync"
	"time"
)

// leaseNews is how long a drive relies on what it knows of a head that several
// processes share, before it enters a body, say.
const leaseNews = 100 * time.Millisecond

// news knows whether others may have committed to a session since its head was
// last read or written here. All methods may be called from any goroutine.
type news struct {
	store *Store
	heard <-chan struct{} // others in this process have committed
	stop  func()

	mu    sync.Mutex // guards the rest; held over nothing that waits
	known instant    // when the head was last read or written here
	more  bool       // others have committed since
}

// hear takes a signal off the channel, and keeps in more that there was one.
func (n *news) hear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.heard:
		n.more = true
	default:
	}
}

// read notes that the head was read, and when that began.
func (n *news) read(at instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known, n.more = at, false
}

// wrote notes that the head was written, and when that began.
func (n *news) wrote(at instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = at
}

// isDue reports whether others may have committed since.
func (n *news) isDue() bool {
	n.mu.Lock()
	due, known := n.more || len(n.heard) > 0, n.known
	n.mu.Unlock()
	// Where one process has the engine, all commits are heard.
	return due || !n.store.exclusive && n.store.since(known) > leaseNews
}
