package sharedkv

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Options are for [Open]; nil means the defaults.
type Options struct {
	// Name is the client's name in SetFaults, Stall and Cut.
	Name string
	// Deaf makes a client that doesn't heed contexts: a call returns when it is
	// answered, its connection breaks, or the client is closed.
	Deaf bool
}

// Client is the shared store as one process has it. It connects when it needs
// to, and again after a connection broke. A call whose connection breaks
// returns an error; an Apply that was sent by then, [kvstore.ErrUncertain]. Any
// goroutine may use it.
type Client struct {
	addr  string
	o     Options
	heard func(asked time.Time, r response) // what the server sent; nil: it isn't asked for

	renewed func() // the connection is a new one; nil: it needn't be told

	calls sync.WaitGroup  // under way
	deaf  context.Context // of the calls of a client that is deaf, until it is closed
	leave func()          // ends deaf

	// mu guards closed and link, and is never held over the network.
	mu     sync.Mutex
	closed bool
	link   *link // the connection; nil: none yet
}

var _ kvstore.Store = (*Client)(nil)

// Open returns a client of the server at addr, without connecting yet.
func Open(addr string, o *Options) *Client {
	c := &Client{addr: addr}
	c.deaf, c.leave = context.WithCancel(context.Background())
	if o != nil {
		c.o = *o
	}
	return c
}

// Get implements [kvstore.Store].
func (c *Client) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if len(key) == 0 || len(key) > kvstore.MaxKey {
		// No batch could hold it; the server is asked, for it may be closed.
		key = make([]byte, kvstore.MaxKey+1)
	}
	r, _, err := c.call(ctx, request{Get: key})
	if err != nil || r.Entry == nil {
		return kvstore.Entry{}, err
	}
	return *r.Entry, nil
}

// Scan implements [kvstore.Store].
func (c *Client) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	res, _, err := c.call(ctx, request{Scan: &r})
	if err != nil || res.Page == nil {
		return kvstore.Page{}, err
	}
	return *res.Page, nil
}

// Apply implements [kvstore.Store].
func (c *Client) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if err := b.Check(); err != nil && !c.isClosed() {
		return 0, err
	}
	r, sent, err := c.call(ctx, request{Apply: &b})
	if err != nil && sent {
		err = fmt.Errorf("%w: %w", kvstore.ErrUncertain, err)
	}
	return r.Revision, err
}

// Close implements [kvstore.Store].
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.leave() // an answer that got lost would be waited for without end
	c.calls.Wait()
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.conn.Close()
		<-l.over
	}
	return nil
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// call sends a request and returns its answer. Sent is true if there is no
// answer, and the request may be with the server.
func (c *Client) call(ctx context.Context, in request) (out response, sent bool, err error) {
	if !c.begin() {
		return out, false, kvstore.ErrClosed
	}
	defer c.calls.Done()
	if err := ctx.Err(); err != nil {
		return out, false, err
	}
	if c.o.Deaf {
		ctx = c.deaf
	}
	l, err := c.connect(ctx)
	if err != nil {
		return out, false, err
	}
	asked := time.Now()
	answer, forget := l.send(in)
	select {
	case r, came := <-answer:
		switch {
		case !came:
			return out, true, fmt.Errorf("sharedkv: the connection to %s broke", c.addr)
		case c.heard != nil:
			c.heard(asked, r)
		}
		if r.Error != nil {
			return out, false, r.Error
		}
		return r, false, nil
	case <-ctx.Done():
		forget()
		return out, true, context.Cause(ctx)
	}
}

func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// connect returns the connection, or a new one.
func (c *Client) connect(ctx context.Context) (*link, error) {
	if l := c.current(nil); l != nil {
		return l, nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	if err := writeFrame(conn, c.o.Name); err != nil {
		conn.Close()
		return nil, err
	}
	made := newLink(conn, c.heard)
	l := c.current(made)
	if l != made { // another call was faster
		conn.Close()
	} else if c.renewed != nil {
		c.renewed()
	}
	return l, nil
}

// current returns the connection. If there is none, or it is broken, made,
// which may be nil, takes its place.
func (c *Client) current(made *link) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil || c.link.broken() {
		c.link = made
	}
	return c.link
}
