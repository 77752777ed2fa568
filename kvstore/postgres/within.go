package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/kvstore"
)

// Within is the store inside a transaction of its user's: what it reads and
// writes is that transaction's, and counts when the user commits. It commits
// nothing, rolls nothing back, and is never uncertain. Its calls wait for each
// other, since a connection does one thing at a time.
//
// A batch holds its keys until the transaction ends, and other transactions
// that want them wait for that: end it soon, and have nothing in it that waits
// for the outside.
//
// [kvstore.ErrConflict] leaves the transaction as it was. After any other error
// of Apply the server takes nothing more in the transaction: roll back, and begin
// again from its first statement. So it is with serialization failures, which
// come at the isolation levels that promise more than read committed, with
// deadlocks, and with [ErrLocked].
type Within struct {
	s      *Store
	tx     pgx.Tx
	turn   chan struct{} // held by the call that has the connection
	closed atomic.Bool
}

var _ kvstore.Store = (*Within)(nil)

// In returns the store within a transaction, which is of the same database, and
// stays the caller's. It is good until the transaction ends.
func (s *Store) In(tx pgx.Tx) *Within {
	return &Within{s: s, tx: tx, turn: make(chan struct{}, 1)}
}

// Get implements [kvstore.Store].
func (w *Within) Get(ctx context.Context, key []byte) (e kvstore.Entry, err error) {
	err = w.do(ctx, func() error {
		e, err = w.s.get(ctx, w.tx, key)
		return err
	})
	return e, err
}

// Scan implements [kvstore.Store].
func (w *Within) Scan(ctx context.Context, r kvstore.Range) (p kvstore.Page, err error) {
	err = w.do(ctx, func() error {
		p, err = w.s.scan(ctx, w.tx, r)
		return err
	})
	return p, err
}

// Apply implements [kvstore.Store].
func (w *Within) Apply(ctx context.Context, b kvstore.Batch) (r kvstore.Revision, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	err = w.do(ctx, func() error {
		alone := []*request{newRequest(b)}
		answers, err := w.s.apply(ctx, w.tx, alone, true, w.s.o.LockTimeout)
		switch {
		case err != nil:
			return err
		case answers[0] == answerConflict:
			return kvstore.ErrConflict
		}
		r = kvstore.Revision(answers[0])
		return nil
	})
	return r, err
}

// Close ends the use of this value; the transaction goes on.
func (w *Within) Close() error {
	w.closed.Store(true)
	return nil
}

// do calls f when no other call has the connection.
func (w *Within) do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.turn }()
	if w.closed.Load() {
		return kvstore.ErrClosed
	}
	return f()
}
