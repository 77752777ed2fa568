package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// Batches that wait for one key, which another transaction holds, all give up in
// the time of one, for certain: none begins to wait when the one before gave up.
func TestBatchesBehindAKeyThatIsHeld(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	const many, lock = 60, 200 * time.Millisecond
	s := open(t, server, &postgres.Options{Schema: migrated(t, server), LockTimeout: lock})
	_, err := s.Apply(t.Context(), put("row", "1"))
	must(t, err)
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		tx, err := c.Begin(ctx)
		must(t, err)
		for _, key := range []string{"row", "new"} {
			_, err = s.In(tx).Apply(ctx, put(key, "2"))
			must(t, err)
			var all sync.WaitGroup
			began := time.Now()
			for range many {
				all.Go(func() {
					_, err := s.Apply(ctx, put(key, "3"))
					if !errors.Is(err, postgres.ErrLocked) || errors.Is(err, kvstore.ErrUncertain) {
						t.Errorf("%s: %v", key, err)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took > many*lock/2 {
				t.Errorf("%s: they waited %v, one after the other", key, took)
			}
		}
		return tx.Rollback(ctx)
	}))
}

// A key that is held for a moment isn't waited for until keys come free that
// other transactions hold for long, though these keep all connections that may
// wait.
func TestKeyThatIsHeldForAMoment(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	s, err := postgres.Open(t.Context(), server.URL()+"&pool_max_conns=4", &postgres.Options{
		Schema: migrated(t, server), LockTimeout: time.Minute, Timeout: 2 * time.Minute})
	must(t, err)
	defer s.Close()
	// wait begins a batch, and returns when it has met its key's lock.
	alone := 0
	wait := func(key string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.Apply(context.Background(), put(key, "2"))
			done <- err
		}()
		for alone++; s.Alone() < alone; {
			<-time.After(time.Millisecond)
		}
		return done
	}
	must(t, withConn(server, func(ctx context.Context, long conn) error {
		return withConn(server, func(ctx context.Context, short conn) error {
			longTx, err := long.Begin(ctx)
			must(t, err)
			var held []<-chan error
			for _, key := range []string{"a", "b", "c"} {
				_, err = s.In(longTx).Apply(ctx, put(key, "1"))
				must(t, err)
				held = append(held, wait(key))
			}
			shortTx, err := short.Begin(ctx)
			must(t, err)
			_, err = s.In(shortTx).Apply(ctx, put("d", "1"))
			must(t, err)
			done := wait("d")
			must(t, shortTx.Commit(ctx))
			select {
			case err := <-done:
				must(t, err)
			case <-time.After(20 * time.Second):
				t.Error("it waits for keys that it doesn't name")
			}
			must(t, longTx.Commit(ctx))
			for _, done := range held {
				must(t, <-done)
			}
			return nil
		})
	}))
}
