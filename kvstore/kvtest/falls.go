package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// noRevisionFalls has many write the same few keys, blindly and several at once,
// and delete them, while others watch: whatever a watcher sees under a key is of
// a greater revision than what it saw before, also after the key was gone. An
// engine that takes a batch's revision before it holds the batch's keys stores
// an older revision over a newer one.
func noRevisionFalls(t *testing.T, c Config) {
	s := open(t, c)
	const writers, batches, watchers = 8, 60, 3
	var writing, watching sync.WaitGroup
	var over atomic.Bool
	for w := range writers {
		writing.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(w)))
			for i := range batches {
				b := several(r, fmt.Sprint(w, "-", i))
				if _, err := s.kv.Apply(t.Context(), b); err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
			}
		})
	}
	for range watchers {
		watching.Go(func() {
			seen := map[string]kvstore.Revision{}
			for last := false; !last; {
				last = over.Load()
				for _, key := range few {
					e, err := s.kv.Get(t.Context(), []byte(key))
					if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
						t.Errorf("Get: %v", err)
						return
					}
					if err == nil && e.Revision < seen[key] {
						t.Errorf("%s is at revision %d, after %d", key, e.Revision, seen[key])
						return
					}
					seen[key] = max(seen[key], e.Revision)
				}
			}
		})
	}
	writing.Wait()
	over.Store(true)
	watching.Wait()
}

// few are the keys that noRevisionFalls writes.
var few = []string{"a", "b", "c", "d"}

// several returns a batch of writes of some of these keys, in any order.
func several(r *rand.Rand, value string) kvstore.Batch {
	var b kvstore.Batch
	for _, i := range r.Perm(len(few))[:1+r.IntN(3)] {
		if r.IntN(4) == 0 {
			b.Deletes = append(b.Deletes, []byte(few[i]))
		} else {
			b.Puts = append(b.Puts, put(few[i], value))
		}
	}
	return b
}
