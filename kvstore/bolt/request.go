package bolt

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

// request is a batch on its way to a commit, with copies of all that it was
// made from: its caller may have gone.
type request struct {
	preconditions []kvstore.Precondition
	puts          []record
	deletes       [][]byte
	size          int

	state    atomic.Uint32
	wake     chan struct{} // closed when the caller is to lead, or has its answer
	revision kvstore.Revision
	err      error
}

// The states of a request. The one that moves it away from waiting
// decides: its caller, that it will never be applied; a leader, that it is in
// the leader's group, or that its caller is to lead.
const (
	waiting = iota
	withdrawn
	claimed
	leading
)

func newRequest(b kvstore.Batch) *request {
	r := &request{size: b.Size(), wake: make(chan struct{})}
	if len(b.Preconditions) > 0 {
		r.preconditions = make([]kvstore.Precondition, len(b.Preconditions))
		for i, p := range b.Preconditions {
			r.preconditions[i] = kvstore.Precondition{Key: bytes.Clone(p.Key), Revision: p.Revision}
		}
	}
	if len(b.Puts) > 0 {
		r.puts = make([]record, len(b.Puts))
		for i, p := range b.Puts {
			r.puts[i] = newRecord(p)
		}
	}
	if len(b.Deletes) > 0 {
		r.deletes = make([][]byte, len(b.Deletes))
		for i, key := range b.Deletes {
			r.deletes[i] = bytes.Clone(key)
		}
	}
	return r
}

func (r *request) withdraw() bool { return r.state.CompareAndSwap(waiting, withdrawn) }
func (r *request) claim() bool    { return r.state.CompareAndSwap(waiting, claimed) }

// leave takes the caller away before its answer, and says what it is told; nil
// if it has to stay.
func (r *request) leave(cause error) error {
	if r.withdraw() {
		return cause
	}
	if r.state.Load() == leading {
		return nil // others wait for it
	}
	select {
	case <-r.wake:
		return nil // the answer came in the same moment
	default:
		return fmt.Errorf("%w: %w", kvstore.ErrUncertain, cause)
	}
}

// choose makes the caller lead, unless it has withdrawn.
func (r *request) choose() bool {
	if !r.state.CompareAndSwap(waiting, leading) {
		return false
	}
	close(r.wake)
	return true
}

func (r *request) answer(revision kvstore.Revision, err error) {
	r.revision, r.err = revision, err
	if r.state.Load() != leading { // a leader answers itself, and has been woken
		close(r.wake)
	}
}

// verdict is what became of a request within a transaction that isn't committed
// yet.
type verdict struct {
	revision kvstore.Revision
	err      error // a refusal: nothing was written
	wrote    bool
}

// carryOut does what the request asks for, on the entries as the requests
// before it in the group left them. An error that it returns, and does not put
// into the verdict, spoils the transaction.
func (r *request) carryOut(path string, entries *bbolt.Bucket) (verdict, error) {
	for _, p := range r.preconditions {
		var at kvstore.Revision
		if stored := entries.Get(p.Key); stored != nil {
			var err error
			if _, at, err = unseal(path, p.Key, stored); err != nil {
				return verdict{err: err}, nil
			}
		}
		if at != p.Revision {
			return verdict{err: kvstore.ErrConflict}, nil
		}
	}
	if len(r.puts)+len(r.deletes) == 0 {
		return verdict{}, nil
	}
	// Deletes take one too, so that readers can tell before from after: see
	// horizon.
	revision, err := entries.NextSequence()
	if err != nil {
		return verdict{}, err
	}
	for i := range r.puts {
		r.puts[i].seal(revision)
		if err := entries.Put(r.puts[i].key, r.puts[i].stored); err != nil {
			return verdict{}, err
		}
	}
	for _, key := range r.deletes {
		if err := entries.Delete(key); err != nil {
			return verdict{}, err
		}
	}
	if len(r.puts) == 0 {
		revision = 0
	}
	return verdict{revision: kvstore.Revision(revision), wrote: true}, nil
}
