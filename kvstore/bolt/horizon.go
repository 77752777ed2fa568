package bolt

import (
	"context"
	"sync/atomic"
)

// horizon keeps readers behind what is on the disk. bbolt shows a transaction
// to new readers as soon as it has written the file's header, and syncs the
// header afterwards. A reader in between sees what a power failure could still
// undo. Such a reader, known by the revision that it saw, waits here for
// the sync; all others pass.
type horizon struct {
	durable atomic.Uint64 // the last revision that is on the disk
	flight  atomic.Pointer[flight]
	failure atomic.Pointer[error] // what a commit left is not known
}

// flight is a commit that is going on.
type flight struct {
	landed chan struct{} // closed when it is over
}

func (h *horizon) begin() *flight {
	f := &flight{landed: make(chan struct{})}
	h.flight.Store(f)
	return f
}

// end says how the flight went: up to which revision all is on the disk, or
// that this can't be known any more.
func (h *horizon) end(f *flight, durable uint64, failure error) {
	if failure != nil {
		h.failure.Store(&failure)
	} else {
		h.durable.Store(durable)
	}
	h.flight.Store(nil)
	close(f.landed)
}

// failed is not nil once a flight has ended with a failure. There must be none
// after it.
func (h *horizon) failed() error {
	if err := h.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// await returns when the revision that was seen is on the disk.
func (h *horizon) await(ctx context.Context, seen uint64) error {
	f := h.flight.Load() // first: a flight that has ended since is in durable, or in failure
	if seen <= h.durable.Load() {
		return nil
	}
	if f != nil {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.failed()
}
