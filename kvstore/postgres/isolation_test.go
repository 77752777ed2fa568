package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

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
