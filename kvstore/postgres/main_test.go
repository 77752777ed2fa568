package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	if beChild() {
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

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
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		return postgres.Migrate(ctx, c, o)
	}))
}

type conn = *pgx.Conn

// withConn calls f with a connection of the role that may do all.
func withConn(server *postgrestest.Server, f func(context.Context, conn) error) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return f(ctx, c)
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
