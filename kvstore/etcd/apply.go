package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermata-ai/fermata/kvstore"
)

// Apply implements [kvstore.Store].
func (s *Store) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Done()
	if err := b.Check(); err != nil {
		return 0, err
	}
	before := s.seen.Load()
	r, err := s.commit(ctx, b)
	switch {
	case err == nil:
	case errors.Is(err, rpctypes.ErrNoSpace):
		return 0, s.full(ctx, b, before, err)
	case isCertain(err):
		return 0, fmt.Errorf("etcd: %w", err)
	default:
		return 0, fmt.Errorf("%w: etcd: %w", kvstore.ErrUncertain, err)
	}
	s.saw(r.Header)
	if !r.Succeeded {
		return 0, kvstore.ErrConflict
	}
	if len(b.Puts) == 0 {
		return 0, nil
	}
	return kvstore.Revision(r.Header.Revision), nil
}

// commit sends a batch as one transaction. The client sends it a second time
// only if it was certainly not sent.
func (s *Store) commit(ctx context.Context, b kvstore.Batch) (*clientv3.TxnResponse, error) {
	conditions := make([]clientv3.Cmp, 0, len(b.Preconditions))
	for i := range b.Preconditions {
		p := &b.Preconditions[i]
		conditions = append(conditions,
			clientv3.Compare(clientv3.ModRevision(s.key(p.Key)), "=", int64(p.Revision)))
	}
	writes := make([]clientv3.Op, 0, len(b.Puts)+len(b.Deletes))
	for i := range b.Puts {
		p := &b.Puts[i]
		writes = append(writes, clientv3.OpPut(s.key(p.Key), string(p.Value)))
	}
	for _, key := range b.Deletes {
		writes = append(writes, clientv3.OpDelete(s.key(key)))
	}
	return s.client.Txn(ctx).If(conditions...).Then(writes...).Commit()
}

// key is a key of this store as etcd has it.
func (s *Store) key(key []byte) string { return s.data + string(key) }

// certain are the errors after which a transaction was not applied, and never
// will be: those of checks before it is proposed, and of who may.
var certain = []error{
	rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyRequests,
	rpctypes.ErrDuplicateKey, rpctypes.ErrEmptyKey, rpctypes.ErrPermissionDenied,
	rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrUserEmpty,
}

func isCertain(err error) bool {
	for _, c := range certain {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// full returns the error of a batch that etcd has refused for want of space.
// Etcd refuses twice: before a transaction is proposed, and once it was applied
// and is found to have passed the quota. The answer doesn't tell which. So the
// store is asked what has become of it, which has seen revision before when the
// batch was sent. Of a batch that writes only new keys, while others write, it
// may remain uncertain.
func (s *Store) full(ctx context.Context, b kvstore.Batch, before int64, refused error) error {
	failed := fmt.Errorf("etcd: %w", refused)
	if len(b.Puts) == 0 {
		return failed
	}
	key, was := telling(b)
	now, err := s.client.Get(ctx, s.key(key))
	if err != nil {
		return fmt.Errorf("%w: %w", kvstore.ErrUncertain, failed)
	}
	s.saw(now.Header)
	switch {
	case now.Header.Revision == before: // nothing was written since
		return failed
	case len(now.Kvs) == 1 && (now.Kvs[0].ModRevision <= before ||
		now.Kvs[0].ModRevision == int64(was)):
		return failed
	}
	return fmt.Errorf("%w: %w", kvstore.ErrUncertain, failed)
}

// telling returns a key that a batch writes, and at which revision it was by a
// precondition; zero: there is none.
func telling(b kvstore.Batch) (key []byte, was kvstore.Revision) {
	for i := range b.Preconditions {
		p := &b.Preconditions[i]
		for j := range b.Puts {
			if p.Revision > 0 && bytes.Equal(p.Key, b.Puts[j].Key) {
				return p.Key, p.Revision
			}
		}
	}
	return b.Puts[0].Key, 0
}
