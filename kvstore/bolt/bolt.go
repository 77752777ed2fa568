// Package bolt is the engine that keeps a store in one file, with bbolt. The
// file belongs to one process at a time.
//
// What it promises: a batch that Apply acknowledges is on the disk, and so is
// all that Get and Scan return. Batches of many callers share a commit, and
// each is still judged by itself. A file that another process holds, or that is
// damaged, is an error within seconds, never a hang, and hardly ever a crash.
//
// Hardly ever: bbolt checks little of what it reads. What it trips over, and
// reads outside the file, become a [kvstore.CorruptError], and every entry
// carries a checksum. What is left is damage that makes a page its own
// descendant, which ends the process by exhausting the stack. A program that
// opens a file of doubtful origin should run [Check] on it first, in a process
// of its own; bbolt's own command, `bbolt check`, finds other faults, and is
// best run in the same way.
//
// The file grows with what is stored, and never shrinks by itself: the space of
// what was deleted is used again. [Compact] gives it back.
package bolt

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

// Options for [Open]; nil is right for most.
type Options struct {
	// LockTimeout is how long to wait for a file that another process has open;
	// zero means 2 s, less than zero not at all.
	LockTimeout time.Duration
	// Mode is that of a new file; zero means 0600.
	Mode os.FileMode
}

// The errors that callers tell apart, beside those of package kvstore.
var (
	// ErrLocked: another process, or another Store in this one, has the file
	// open.
	ErrLocked = errors.New("the file is in use")
	// ErrFailed: what an earlier commit left in the file is not known, so the
	// store has to be closed and opened again. It was not the call that gets
	// this error, which did nothing.
	ErrFailed = errors.New("kvstore/bolt: an earlier commit failed")
)

// Store is an open file.
type Store struct {
	db          *database
	update      func(func(*bbolt.Tx) error) error // the database's; tests make it fail
	incarnation uint64
	local       *kvstore.Local

	queue  queue
	synced horizon

	closing sync.Once
	closed  error // what Close returns
}

var _ kvstore.Exclusive = (*Store)(nil)

func newStore(db *database) *Store {
	s := &Store{db: db, update: db.update, local: kvstore.NewLocal()}
	s.queue.init()
	return s
}

// Incarnation is kept in the file and raised by each Open.
func (s *Store) Incarnation() uint64 { return s.incarnation }

// Local returns the same for all who hold this Store.
func (s *Store) Local() *kvstore.Local { return s.local }

// Apply implements [kvstore.Store]. If ctx ends while the batch waits for its
// commit, the batch is withdrawn, and ctx's error is certain. If it ends while
// another caller commits the batch, Apply doesn't wait, and returns an
// ErrUncertain that is ctx's error too. A caller that commits its own batch, as
// one who is alone always does, sees it through.
func (s *Store) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	r := newRequest(b)
	if err := s.queue.push(r); err != nil {
		return 0, err
	}
	if r.state.Load() != leading {
		select {
		case <-r.wake:
		case <-ctx.Done():
			if err := r.leave(ctx.Err()); err != nil {
				return 0, err
			}
		}
	}
	if r.state.Load() == leading {
		s.commit(s.queue.take())
		s.queue.handOver()
	}
	return r.revision, r.err
}

// Close commits what is queued, waits for the reads that have begun, and gives
// up the file. Calls that come later answer [kvstore.ErrClosed]. Closing twice
// is no error.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.close()
		s.closed = s.db.close()
	})
	return s.closed
}
