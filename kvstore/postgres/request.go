package postgres

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// request is a batch on its way to a commit, with copies of all that it was made
// from: its caller may have gone.
type request struct {
	batch kvstore.Batch
	size  int
	came  time.Time
	keys  []string // all that it names, each once
	alone bool     // it waits for locks, and shares its transaction with none

	state    atomic.Uint32
	done     chan struct{} // closed when it is answered
	revision kvstore.Revision
	err      error
}

// The states of a request. The one that moves it away from waiting decides: its
// caller, that it will never be applied; a writer, that it may be.
const (
	waiting = iota
	withdrawn
	claimed
)

func newRequest(b kvstore.Batch) *request {
	r := &request{size: b.Size(), came: time.Now(), done: make(chan struct{})}
	name := func(key []byte) []byte {
		r.keys = append(r.keys, string(key))
		return bytes.Clone(key)
	}
	for _, p := range b.Preconditions {
		p.Key = name(p.Key)
		r.batch.Preconditions = append(r.batch.Preconditions, p)
	}
	for _, p := range b.Puts {
		// A nil value is an empty one, and no NULL.
		p = kvstore.Put{Key: name(p.Key), Value: append([]byte{}, p.Value...)}
		r.batch.Puts = append(r.batch.Puts, p)
	}
	for _, key := range b.Deletes {
		r.batch.Deletes = append(r.batch.Deletes, name(key))
	}
	return r
}

func (r *request) claim() bool { return r.state.CompareAndSwap(waiting, claimed) }

// leave takes the caller away before its answer, and returns what it is told.
func (r *request) leave(cause error) error {
	if r.state.CompareAndSwap(waiting, withdrawn) {
		return cause
	}
	select {
	case <-r.done:
		return nil // the answer came in the same moment
	default:
		return fmt.Errorf("%w: %w", kvstore.ErrUncertain, cause)
	}
}

func (r *request) answer(revision kvstore.Revision, err error) {
	r.revision, r.err = revision, err
	close(r.done)
}
