package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// ResumeIn is Resume inside a transaction of the caller's own: within is the
// runner's store as an engine has it there, such as what the method In of
// kvstore/postgres returns. So an answer and rows of the caller's are stored
// together, or not at all:
//
//	tx, err := pool.Begin(ctx)
//	…
//	defer tx.Rollback(ctx)
//	resumed, committed, err := rn.ResumeIn(ctx, engine.In(tx), session, answer)
//	if err != nil {
//		return err // and nothing is stored
//	}
//	if !resumed.Receipts[0].Duplicate {
//		// Write the rows that belong to the answer, in tx.
//	}
//	if err := tx.Commit(ctx); err != nil {
//		return err // perhaps committed: deliver the same again
//	}
//	committed()
//
// What is accepted is durable once the transaction commits, and counts from
// then on: until that, no other transaction sees it. Committed, which is never
// nil, wakes who waits for it. It is to be called after the commit; where it
// isn't, because the process died, a worker finds the answer at its next poll,
// or, if the transaction was open for seconds, when it looks at all that is due:
// within ten seconds, unless such a look is slow.
//
// A Duplicate was accepted in a transaction that is committed: that one wrote
// the rows. So a caller that lost the answer to its commit does all of it again,
// and writes the rows no second time.
//
// The session's head stays locked until the transaction ends. Have nothing in it
// that waits, and end it soon. An error that isn't a refusal leaves a
// transaction that the server doesn't go on with: roll back, and begin again.
// The Authorizer, and methods of Go types that check an answer, are called while
// the transaction is open.
//
// Resumed.Events carries the session on, after the commit.
func (rn *Runner) ResumeIn(
	ctx context.Context, within kvstore.Store, sessionID string, rs ...Resumption,
) (resumed *Resumed, committed func(), err error) {
	committed = func() {}
	if err := checkCount(rs); err != nil {
		return nil, committed, err
	}
	all, err := rn.admit(ctx, sessionID, rs)
	if err != nil {
		return nil, committed, err
	}
	if within == nil {
		return nil, committed, errors.New("runner: ResumeIn: the store within the transaction is nil")
	}
	store, told, err := rn.store.Within(within)
	if err != nil {
		return nil, committed, fmt.Errorf("runner: ResumeIn: %w", err)
	}
	resumed, err = rn.takeIn(ctx, store, all, (*session.Tx).Answer)
	return resumed, told, err
}
