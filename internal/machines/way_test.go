package machines

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// way is a process's way to a server: what it sends there, and gets from there,
// is late, and may be held up or cut.
type way struct {
	server string
	l      net.Listener
	late   time.Duration // each piece is as late as that, at most
	pumps  sync.WaitGroup

	// mu guards what follows.
	mu     sync.Mutex
	held   time.Time // until when nothing goes through
	conns  map[net.Conn]struct{}
	closed bool
	cuts   int // connections
}

func newWay(t *testing.T, server string, late time.Duration) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &way{server: server, l: l, late: late, conns: map[net.Conn]struct{}{}}
	w.pumps.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *way) addr() string { return w.l.Addr().String() }

func (w *way) accept() {
	for {
		c, err := w.l.Accept()
		if err != nil {
			return // closed
		}
		w.pumps.Go(func() { w.connect(c) })
	}
}

func (w *way) connect(from net.Conn) {
	to, err := net.Dial("tcp", w.server)
	if err != nil {
		from.Close()
		return
	}
	if !w.add(from, to) {
		return
	}
	w.pumps.Go(func() { w.pump(to, from) })
	w.pump(from, to)
}

// add notes both ends of a connection, unless the way is closed.
func (w *way) add(ends ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range ends {
		if w.closed {
			c.Close()
			continue
		}
		w.conns[c] = struct{}{}
	}
	return !w.closed
}

// pump carries what comes from one end to the other, until one of them ends.
func (w *way) pump(from, to net.Conn) {
	defer func() {
		from.Close()
		to.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, from)
		delete(w.conns, to)
	}()
	for b := make([]byte, 32<<10); ; {
		n, err := from.Read(b)
		if n > 0 {
			w.wait()
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait makes a piece late, and holds it up while the way is held.
func (w *way) wait() {
	if w.late > 0 {
		time.Sleep(rand.N(w.late))
	}
	for {
		w.mu.Lock()
		held := time.Until(w.held)
		w.mu.Unlock()
		if held <= 0 {
			return
		}
		time.Sleep(min(held, 20*time.Millisecond))
	}
}

// hold lets nothing through for so long.
func (w *way) hold(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = time.Now().Add(d)
}

// cut breaks all connections: what was under way may have come, or not.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts += len(w.conns) / 2
	for c := range w.conns {
		c.Close()
	}
}

func (w *way) close() {
	w.mu.Lock()
	w.closed, w.held = true, time.Time{}
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.l.Close()
	w.pumps.Wait()
}
