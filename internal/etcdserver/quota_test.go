package etcdserver_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
)

// Etcd may apply a batch and then refuse it, when several writers pass the quota
// at once. None of those that count as refused was applied.
func TestWritersThatPassTheQuotaTogether(t *testing.T) {
	s := open(t, start(t, etcdserver.Config{Quota: 4 << 20}), &etcd.Options{CompactEvery: -1})
	const writers = 32
	var all sync.WaitGroup
	var refused, uncertain atomic.Int64
	for w := range writers {
		key := fmt.Append(nil, w)
		all.Go(func() {
			last, err := s.Apply(t.Context(), puts(string(key), nil))
			for range 1000 {
				if err != nil {
					break
				}
				b := puts(string(key), make([]byte, kvstore.MaxValue))
				b.Preconditions = []kvstore.Precondition{{Key: key, Revision: last}}
				var r kvstore.Revision
				if r, err = s.Apply(t.Context(), b); err == nil {
					last = r
				}
			}
			e, missing := s.Get(t.Context(), key)
			switch {
			case err == nil || missing != nil:
				t.Errorf("key %s: %v, %v", key, err, missing)
			case errors.Is(err, kvstore.ErrUncertain):
				uncertain.Add(1)
			case e.Revision != last:
				t.Errorf("key %s: %v, and it is stored all the same", key, err)
			default:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d refused, %d uncertain", refused.Load(), uncertain.Load())
}
