package session_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// waitsForEver is an engine whose next write ends only with its context.
type waitsForEver struct {
	kvstore.Store
	waits atomic.Bool
}

func (w *waitsForEver) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if w.waits.CompareAndSwap(true, false) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return w.Store.Apply(ctx, b)
}

// The goroutine that delivers for others is cancelled. What the others tell
// arrives all the same.
func TestACancelledLeaderCancelsNoOthersLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &waitsForEver{Store: kvstore.NewMemory()}
		p := newParent(t, kv, "c1", "c2")
		for _, c := range []string{"c1", "c2"} {
			p.do(spawns(t, c, session.Left{}))
			finishes(t, p.store, childOf(c), c)
		}
		kv.waits.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		leader, other := make(chan error, 1), make(chan error, 1)
		deliver := func(ctx context.Context, call string, to chan error) {
			_, err := p.store.Deliver(ctx, childOf(call))
			to <- err
		}
		go deliver(ctx, "c1", leader)
		synctest.Wait()
		go deliver(t.Context(), "c2", other)
		synctest.Wait()
		cancel()
		if err := <-leader; !errors.Is(err, context.Canceled) {
			t.Errorf("the leader ends with %v", err)
		}
		must(t, <-other)
		if c := load(t, p.store, "top").Call("c2"); c.Status != session.Answered {
			t.Errorf("the other's call is %s", c.Status)
		}
	})
}
