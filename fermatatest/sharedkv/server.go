package sharedkv

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Server serves a store to clients, and makes the faults. Its methods may be
// called from many goroutines. The client called "" stands for all those
// without faults of their own.
type Server struct {
	kv       kvstore.Store
	listener net.Listener
	closing  chan struct{}
	running  sync.WaitGroup // every goroutine of the server

	// mu guards what follows, and the names of peers. It is held over no
	// request.
	mu      sync.Mutex
	closed  bool
	faults  map[string]Faults
	stalled map[string]time.Time // until when
	peers   map[*peer]struct{}
	counts  Counts
	ahead   time.Duration // its clock
}

// peer is one connection of a client.
type peer struct {
	conn   net.Conn
	client string

	writing sync.Mutex // one frame at a time
}

// Listen serves kv, which remains the caller's to close, on a free port of the
// loopback interface.
func Listen(kv kvstore.Store) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		kv:       kv,
		listener: l,
		closing:  make(chan struct{}),
		faults:   map[string]Faults{},
		stalled:  map[string]time.Time{},
		peers:    map[*peer]struct{}{},
	}
	s.running.Go(s.accept)
	return s, nil
}

// Addr returns the address at which clients find the server.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// SetFaults sets the faults of a client's requests from now on.
func (s *Server) SetFaults(client string, f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[client] = f
}

// Stall keeps a client waiting for so long: its requests meanwhile, and the
// answers to its earlier ones.
func (s *Server) Stall(client string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(d); until.After(s.stalled[client]) {
		s.stalled[client] = until
	}
}

// Heal ends all faults and stalls. Answers that were lost stay lost.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.stalled = map[string]Faults{}, map[string]time.Time{}
}

// Cut breaks the connections of a client; of all, if it is "". Requests under
// way are carried out, unanswered.
func (s *Server) Cut(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		if client == "" || p.client == client {
			s.counts.Cut++
			p.conn.Close()
		}
	}
}

// Counts returns how many requests were struck so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Close ends the server and all connections. Requests that were held back are
// not carried out any more.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	err := s.listener.Close()
	for p := range s.peers {
		p.conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		p := &peer{conn: conn}
		if !s.add(p) {
			conn.Close()
			return
		}
		s.running.Go(func() { s.serve(p) })
	}
}

func (s *Server) add(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[p] = struct{}{}
	return !s.closed
}

// serve reads a client's requests, and handles each in a goroutine of its own,
// so that one request doesn't wait for another.
func (s *Server) serve(p *peer) {
	defer func() {
		p.conn.Close()
		s.mu.Lock()
		delete(s.peers, p)
		s.mu.Unlock()
	}()
	r := bufio.NewReader(p.conn)
	var client string
	if readFrame(r, &client) != nil {
		return
	}
	s.mu.Lock()
	p.client = client
	s.mu.Unlock()
	for {
		var in request
		if readFrame(r, &in) != nil {
			return
		}
		s.running.Go(func() { s.handle(p, in) })
	}
}

// handle carries out a request, and answers it, as its fate demands.
func (s *Server) handle(p *peer, in request) {
	x := s.fate(p.client, in.Apply != nil || len(in.Signal) > 0)
	switch {
	case !s.sleep(x.delay), !s.outlast(p.client):
		return
	case x.cutBefore:
		p.conn.Close()
		return
	}
	if x.lose && in.Signal != nil {
		return
	}
	s.broadcast(p, in.Signal)
	out := s.do(in)
	switch {
	case x.lose, !s.sleep(x.late), !s.outlast(p.client):
		return
	case x.cutAfter:
		p.conn.Close()
		return
	}
	p.send(out)
}

func (p *peer) send(out response) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if writeFrame(p.conn, out) != nil {
		p.conn.Close()
	}
}

func (s *Server) fate(client string, write bool) fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, own := s.faults[client]
	if !own {
		f = s.faults[""]
	}
	x := f.fate(write)
	switch {
	case x.late > 0:
		s.counts.Late++
	case x.lose:
		s.counts.Lost++
	case x.cutBefore, x.cutAfter:
		s.counts.Cut++
	}
	return x
}

// sleep waits, and reports whether the server is still open then.
func (s *Server) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closing:
		return false
	}
}

// outlast waits until a client is not stalled. It reports whether the server is
// still open then.
func (s *Server) outlast(client string) bool {
	for first := true; ; first = false {
		s.mu.Lock()
		until, own := s.stalled[client]
		if !own {
			until = s.stalled[""]
		}
		left := time.Until(until)
		if first && left > 0 {
			s.counts.Stalled++
		}
		s.mu.Unlock()
		if left <= 0 {
			return true
		}
		if !s.sleep(min(left, shortest)) { // a while at a time: the stall may be ended
			return false
		}
	}
}

const shortest = 20 * time.Millisecond

func (s *Server) do(in request) (out response) {
	ctx := context.Background() // a client that is gone has asked all the same
	out.ID, out.Time = in.ID, s.now()
	var err error
	switch {
	case in.Signal != nil:
	case in.Apply != nil:
		out.Revision, err = s.kv.Apply(ctx, *in.Apply)
	case in.Scan != nil:
		var page kvstore.Page
		page, err = s.kv.Scan(ctx, *in.Scan)
		out.Page = &page
	case len(in.Get) > 0:
		var entry kvstore.Entry
		entry, err = s.kv.Get(ctx, in.Get)
		out.Entry = &entry
	default:
		err = errors.New("sharedkv: an empty request")
	}
	if err != nil {
		out.Error = failureOf(err)
	}
	return out
}
