package sharedkv

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// link is one connection of a client, and the calls that wait for its answers.
// One goroutine, that of read, reads from the connection. Any goroutine may
// write, one frame at a time, under writing. The channel of a call has room for
// its one answer: read sends it, or closes the channel when the connection
// breaks.
type link struct {
	conn  net.Conn
	over  chan struct{}                     // closed when nothing is read any more
	heard func(asked time.Time, r response) // takes signals; nil: there are none

	writing sync.Mutex // one frame at a time

	// mu guards last and waiting.
	mu      sync.Mutex
	last    uint64                   // the last request's id
	waiting map[uint64]chan response // nil: broken
}

func newLink(conn net.Conn, heard func(time.Time, response)) *link {
	l := &link{conn: conn, over: make(chan struct{}), heard: heard,
		waiting: map[uint64]chan response{}}
	go l.read()
	return l
}

func (l *link) broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting == nil
}

// send sends a request. Its answer comes on the channel, which is closed
// without one if the connection breaks. Forget drops the wait.
func (l *link) send(in request) (answer <-chan response, forget func()) {
	ch := make(chan response, 1)
	l.mu.Lock()
	if l.waiting == nil {
		l.mu.Unlock()
		close(ch)
		return ch, func() {}
	}
	l.last++
	in.ID = l.last
	l.waiting[in.ID] = ch
	l.mu.Unlock()

	l.writing.Lock()
	defer l.writing.Unlock()
	if writeFrame(l.conn, in) != nil {
		l.conn.Close() // which ends read
	}
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, in.ID)
	}
}

// read sends each answer to the call that waits for it, until the connection
// breaks.
func (l *link) read() {
	defer close(l.over)
	defer l.conn.Close()
	for r := bufio.NewReader(l.conn); ; {
		var out response
		if err := readFrame(r, &out); err != nil {
			break
		}
		if out.ID == 0 && l.heard != nil {
			l.heard(time.Time{}, out)
		}
		l.mu.Lock()
		if ch := l.waiting[out.ID]; ch != nil {
			ch <- out
			delete(l.waiting, out.ID)
		}
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range l.waiting {
		close(ch)
	}
	l.waiting = nil
}
