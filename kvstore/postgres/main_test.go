package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// migrated returns the name of a schema with an empty store.
func migrated(t testing.TB, server *postgrestest.Server) string {
	t.Helper()
	schema := server.Schema(t)
	migrate(t, server, &postgres.MigrateOptions{Schema: schema})
	return schema
}

func migrate(t testing.TB, server *postgrestest.Server, o *postgres.MigrateOptions) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server.URL())
	must(t, err)
	defer conn.Close(ctx)
	must(t, postgres.Migrate(ctx, conn, o))
}

// open opens a store, which is closed when the test ends.
func open(t testing.TB, server *postgrestest.Server, o *postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), server.URL(), o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func put(key, value string) kvstore.Batch {
	return kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte(value)}}}
}
