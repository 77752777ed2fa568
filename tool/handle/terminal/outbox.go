package terminal

import (
	"errors"
	"sync"
)

// outbox is what is on its way to the program. A program need not read: so
// what is put there doesn't wait for it, and there is a bound.
type outbox struct {
	ready chan struct{} // has room for one

	mu     sync.Mutex // guards what follows
	bytes  []byte
	closed bool
}

const maxWaiting = 1 << 20

var errFull = errors.New("the program doesn't read what was typed before; nothing was typed")

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

// Write adds bytes. What has no room any more is dropped: those are answers to
// a program that asks and doesn't read. It never fails.
func (o *outbox) Write(b []byte) (int, error) {
	if o.room(len(b)) == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.bytes = append(o.bytes, b...)
		o.wake()
	}
	return len(b), nil
}

// room returns why so many bytes can't be added.
func (o *outbox) room(n int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return errClosed
	case len(o.bytes)+n > maxWaiting:
		return errFull
	}
	return nil
}

var errClosed = errors.New("the program has ended, and takes no keys any more")

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// take waits for bytes, and takes them all. It reports whether more may come.
func (o *outbox) take() (b []byte, open bool) {
	for {
		o.mu.Lock()
		b, o.bytes = o.bytes, nil
		closed := o.closed
		o.mu.Unlock()
		if len(b) > 0 || closed {
			return b, !closed
		}
		<-o.ready
	}
}
