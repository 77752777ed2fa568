package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fermata-ai/fermata/kvstore"
)

// Apply implements [kvstore.Store]. If ctx ends while the batch waits for a
// transaction, the batch is withdrawn, and ctx's error is certain. If it ends
// while the batch is with the server, Apply returns an ErrUncertain that is
// ctx's error too, and the batch goes its way.
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
	select {
	case <-r.done:
	case <-ctx.Done():
		if err := r.leave(ctx.Err()); err != nil {
			return 0, err
		}
	}
	return r.revision, r.err
}

// commit carries out a group in one transaction, and answers each request but
// those that go alone from here.
func (s *Store) commit(group []*request) {
	if group[0].alone {
		s.commitAlone(group[0])
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	answers, err := s.commitOnce(ctx, group, false, min(momentary, s.left(group[0])))
	switch {
	case err == nil:
		for i, r := range group {
			s.answer(r, answers[i])
		}
	case inTheWay(err) && len(group) > 1:
		// One of them is the cause: in halves it is found, and the others come
		// through.
		s.commit(group[:len(group)/2])
		s.commit(group[len(group)/2:])
	case inTheWay(err):
		s.queue.goAlone(group[0])
	default:
		for _, r := range group {
			r.answer(0, err)
		}
	}
}

// inTheWay reports whether an error of a group is that of one of its requests,
// and the others have nothing to do with it.
func inTheWay(err error) bool {
	if errors.Is(err, kvstore.ErrUncertain) {
		return false // to send it again might carry it out twice
	}
	switch code(err) {
	case codeLock, codeDataCorrupted, codeIndexCorrupted:
		return true
	}
	return IsRetryable(err)
}

// The numbers that the server's apply returns in place of a revision.
const (
	answerConflict = -1
	answerLocked   = -2
)

func (s *Store) answer(r *request, n int64) {
	switch {
	case n == answerLocked:
		s.queue.goAlone(r)
	case n == answerConflict:
		r.answer(0, kvstore.ErrConflict)
	default:
		r.answer(kvstore.Revision(n), nil)
	}
}

// momentary is how long a group waits for keys that another transaction is
// about to make. For rows it doesn't wait at all.
const momentary = 100 * time.Millisecond

func (s *Store) commitOnce(
	ctx context.Context, group []*request, patient bool, lock time.Duration,
) ([]int64, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err // nothing was sent
	}
	defer conn.Release()
	answers, err := s.applyCommitted(ctx, conn, group, patient, lock)
	if err != nil && !certain(err, conn.Conn()) {
		err = fmt.Errorf("%w: %w", kvstore.ErrUncertain, err)
	}
	return answers, err
}

// applyCommitted is apply in a transaction of its own, at the level of read
// committed. Above it the server would refuse a batch that has waited for a key,
// and it would be sent again. A statement by itself is such a transaction, unless
// the database or the role has another level as its default.
func (s *Store) applyCommitted(
	ctx context.Context, conn *pgxpool.Conn, group []*request, patient bool, lock time.Duration,
) (answers []int64, err error) {
	if conn.Conn().PgConn().CustomData()[looked] == pgx.ReadCommitted {
		return s.apply(ctx, conn, group, patient, lock)
	}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted},
		func(tx pgx.Tx) error {
			answers, err = s.apply(ctx, tx, group, patient, lock)
			return err
		})
	return answers, err
}

// apply has the server carry out requests, which have no key in common.
func (s *Store) apply(
	ctx context.Context, q querier, group []*request, patient bool, lock time.Duration,
) (answers []int64, err error) {
	var a columns
	a.fill(group)
	var now time.Time
	asked := time.Now()
	err = q.QueryRow(ctx, s.text.apply, mode(s.o, q, len(group), patient, int(lock.Milliseconds()),
		a.preOf, a.preKeys, a.preAt, a.putOf, a.putKeys, a.putValues, a.delOf, a.delKeys,
	)...).Scan(&answers, &now)
	if err != nil {
		return nil, s.told("apply", nil, err)
	}
	s.time.Observe(asked, now)
	return answers, nil
}

// columns are requests as the server's apply takes them: arrays, of which none
// may be nil.
type columns struct {
	preOf, putOf, delOf                  []int32
	preKeys, putKeys, putValues, delKeys [][]byte
	preAt                                []int64
}

func (a *columns) fill(group []*request) {
	*a = columns{
		preOf: []int32{}, putOf: []int32{}, delOf: []int32{}, preAt: []int64{},
		preKeys: [][]byte{}, putKeys: [][]byte{}, putValues: [][]byte{}, delKeys: [][]byte{},
	}
	for i, r := range group {
		of := int32(i + 1)
		for _, p := range r.batch.Preconditions {
			a.preOf = append(a.preOf, of)
			a.preKeys = append(a.preKeys, p.Key)
			a.preAt = append(a.preAt, int64(p.Revision))
		}
		for _, p := range r.batch.Puts {
			a.putOf = append(a.putOf, of)
			a.putKeys = append(a.putKeys, p.Key)
			a.putValues = append(a.putValues, p.Value)
		}
		for _, key := range r.batch.Deletes {
			a.delOf = append(a.delOf, of)
			a.delKeys = append(a.delKeys, key)
		}
	}
}
