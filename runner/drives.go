package runner

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
)

// drives are those of a runner that are not over, with the leases that they
// hold, so that Close can wait for them, and take their leases away. Any
// goroutine may use it.
type drives struct {
	mu       sync.Mutex // guards the rest, but for running; held over no lease
	closed   bool       // no drive begins any more
	gaveUp   bool       // no drive holds a lease any more
	leases   map[*drive]*session.Lease
	underway sync.WaitGroup // the drives, and bodies whose time was over
}

// begin counts a drive in.
func (ds *drives) begin(d *drive) error {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.closed {
		return ErrClosed
	}
	ds.underway.Add(1)
	ds.leases[d] = d.lease
	return nil
}

// renew notes that a drive has another lease. One that comes too late is given
// up.
func (ds *drives) renew(d *drive, lease *session.Lease) {
	ds.mu.Lock()
	ds.leases[d] = lease
	gaveUp := ds.gaveUp
	ds.mu.Unlock()
	if gaveUp {
		lease.Abandon()
	}
}

func (ds *drives) end(d *drive) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.leases, d)
	ds.underway.Done()
}

// close has no drive begin any more.
func (ds *drives) close() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.closed = true
}

// leftBehind has a body waited for whose time was over. Its drive is counted,
// too, and still there.
func (ds *drives) leftBehind(wait func()) {
	ds.underway.Add(1)
	go func() {
		defer ds.underway.Done()
		wait()
	}()
}

// wait waits until all drives are over, or ctx ends.
func (ds *drives) wait(ctx context.Context) error {
	over := make(chan struct{})
	go func() { ds.underway.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveUp takes the leases of all drives away.
func (ds *drives) giveUp() error {
	ds.mu.Lock()
	ds.gaveUp = true
	left := maps.Clone(ds.leases)
	ds.mu.Unlock()
	for d, lease := range left {
		lease.Abandon()
		d.life.endAll()
	}
	return fmt.Errorf("runner: closed, but bodies ignore that their context ended, and still run; "+
		"%d sessions have lost their drive", len(left))
}
