package runner

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
)

// drives are the drives of a runner that are not over, with their leases. Close
// waits for them, and takes the leases of late ones away. All methods may be
// called from any goroutine.
type drives struct {
	mu       sync.Mutex // guards the rest, except underway; held over no call of a lease
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

// start runs f in a goroutine that Close waits for, unless Close has begun.
func (ds *drives) start(f func()) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.closed {
		return false
	}
	ds.underway.Go(f)
	return true
}

// renew notes that a drive has taken its session anew, under another lease.
// After giveUp, the lease is given up at once.
func (ds *drives) renew(d *drive, lease *session.Lease) {
	ds.mu.Lock()
	ds.leases[d] = lease
	gaveUp := ds.gaveUp
	ds.mu.Unlock()
	if gaveUp {
		lease.Abandon()
	}
}

// end counts a drive out.
func (ds *drives) end(d *drive) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.leases, d)
	ds.underway.Done()
}

// close lets no further drive begin.
func (ds *drives) close() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.closed = true
}

// leftBehind makes Close wait for a body that went on after its time was over.
// It is called while the body's drive is still counted, so Close has not yet
// stopped waiting.
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
