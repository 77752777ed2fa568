package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// given returns a batch with a precondition more.
func given(b kvstore.Batch, key string, at kvstore.Revision) kvstore.Batch {
	b.Preconditions = append(b.Preconditions, kvstore.Precondition{Key: []byte(key), Revision: at})
	return b
}

func del(key string) kvstore.Batch { return kvstore.Batch{Deletes: [][]byte{[]byte(key)}} }

// A transaction may see the store as it was before another one deleted a key.
// A precondition on that key doesn't hold for it all the same: either it knows,
// or the server has it begin again.
func TestKeyDeletedSinceTheTransactionBegan(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for name, batch := range map[string]func(kvstore.Revision) kvstore.Batch{
			"another is put": func(r kvstore.Revision) kvstore.Batch { return given(put("b", "2"), "a", r) },
			"it is put":      func(r kvstore.Revision) kvstore.Batch { return given(put("a", "2"), "a", r) },
			"it is deleted":  func(r kvstore.Revision) kvstore.Batch { return given(del("a"), "a", r) },
		} {
			t.Run(string(level)+"/"+name, func(t *testing.T) {
				t.Parallel()
				kv := open(t, server, &postgres.Options{Schema: migrated(t, server)})
				r, err := kv.Apply(t.Context(), put("a", "1"))
				must(t, err)
				must(t, withConn(server, func(ctx context.Context, c conn) error {
					tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
					must(t, err)
					in := kv.In(tx)
					_, err = in.Get(ctx, []byte("a")) // from here on the levels see it so
					must(t, err)
					_, err = kv.Apply(ctx, given(del("a"), "b", 0))
					must(t, err)
					_, err = in.Apply(ctx, batch(r))
					again := level != pgx.ReadCommitted && postgres.IsRetryable(err)
					if !again && !errors.Is(err, kvstore.ErrConflict) {
						t.Errorf("Apply: %v", err)
					}
					return tx.Rollback(ctx)
				}))
			})
		}
	}
}

// refusals counts the statements that the server has refused as serialization
// failures.
type refusals struct{ n atomic.Int64 }

func (*refusals) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	return ctx
}

func (r *refusals) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	if postgres.IsRetryable(d.Err) {
		r.n.Add(1)
	}
}

// Whatever the default level of a connection is, batches that are in no
// transaction of the user's have read committed: one that waited for a key is
// judged by what is there then, and refused by no server.
func TestBatchesAreReadCommitted(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			var refused refusals
			s := pooled(t, server.URL(), &postgres.Options{Schema: migrated(t, server)},
				func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
					c.ConnConfig.RuntimeParams["application_name"] = t.Name()
					c.ConnConfig.Tracer = &refused
				})
			r, err := s.Apply(t.Context(), put("a", "1"))
			must(t, err)
			must(t, withConn(server, func(ctx context.Context, c conn) error {
				tx, err := c.Begin(ctx)
				must(t, err)
				next, err := s.In(tx).Apply(ctx, given(put("a", "2"), "a", r))
				must(t, err)
				done := make(chan error, 1)
				go func() {
					_, err := s.Apply(context.Background(), given(put("a", "3"), "a", next))
					done <- err
				}()
				for waits := false; !waits && len(done) == 0; <-time.After(time.Millisecond) {
					must(t, withConn(server, func(ctx context.Context, c conn) error {
						return c.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity WHERE "+
							"application_name = $1 AND wait_event_type = 'Lock'", t.Name()).Scan(&waits)
					}))
				}
				must(t, tx.Commit(ctx))
				return <-done
			}))
			if n := refused.n.Load(); n > 0 {
				t.Errorf("the server refused %d statements", n)
			}
		})
	}
}
