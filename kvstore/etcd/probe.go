package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fermata-ai/fermata/kvstore"
)

// probeWait is how long New waits for a cluster that doesn't answer.
const probeWait = 10 * time.Second

// probe asks the server whether it takes the largest batch. A precondition of
// it can't hold, so nothing is stored. It is sent as it would be by Apply.
func (s *Store) probe(ctx context.Context) error {
	const puts = kvstore.MaxOperations
	value := make([]byte, kvstore.MaxBatch/puts-kvstore.MaxKey)
	b := kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: probeKey(0), Revision: 1}}}
	for i := range puts {
		b.Puts = append(b.Puts, kvstore.Put{Key: probeKey(i), Value: value})
	}
	bounded, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	r, err := s.commit(bounded, b)
	switch {
	case err != nil && bounded.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("etcd: the cluster hasn't answered for %v: %w", probeWait, err)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("etcd: the server takes fewer than %d operations in a transaction; "+
			"set its --max-txn-ops no lower than the default of 128: %w", kvstore.MaxOperations, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("etcd: the server takes no request of %d KiB; "+
			"set its --max-request-bytes no lower than the default of 1.5 MiB: %w",
			kvstore.MaxBatch>>10, err)
	case errors.Is(err, rpctypes.ErrNoSpace): // it can be read, and deleted from
		return nil
	case err != nil:
		return fmt.Errorf("etcd: %w", err)
	}
	s.saw(r.Header)
	return nil
}

// probeKey returns a key of full length that no entry has: keys of entries are
// no longer, and no batch was ever at revision 1.
func probeKey(i int) []byte {
	return append(bytes.Repeat([]byte{0xff}, kvstore.MaxKey-3), fmt.Sprintf("%03d", i)...)
}
