// Package engines opens a store in an engine that processes share, by its URL.
package engines

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
	"github.com/fermata-ai/fermata/kvstore/postgres"
)

// Open opens the store that a URL names. This is all in which engines differ.
// Place is where it is within the engine, a schema or a prefix; empty is the
// engine's default.
func Open(ctx context.Context, url, place string) (kvstore.Store, error) {
	scheme, _, _ := strings.Cut(url, "://")
	switch scheme {
	case "postgres", "postgresql":
		return postgres.Open(ctx, url, &postgres.Options{Schema: place})
	case "etcd":
		return etcd.Open(ctx, url, &etcd.Options{Prefix: place})
	}
	return nil, fmt.Errorf("the store's URL begins with %q: known are postgres and etcd, which "+
		"processes can share", scheme)
}

// Prepare makes what the store needs before any process opens it, and sees that
// it can be opened.
func Prepare(ctx context.Context, url, place string) error {
	if strings.HasPrefix(url, "postgres") {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		if err := postgres.Migrate(ctx, conn, &postgres.MigrateOptions{Schema: place}); err != nil {
			return err
		}
	}
	kv, err := Open(ctx, url, place)
	if err != nil {
		return err
	}
	return kv.Close()
}
