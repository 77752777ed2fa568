package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/kvstore/etcd"
	"github.com/fermata-ai/fermata/kvstore/postgres"
)

// open opens the store that a URL names. This is all in which engines differ. A
// file belongs to one process, and is no store for a cluster.
func open(ctx context.Context, url string) (kvstore.Store, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch scheme {
	case "bolt":
		return bolt.Open(rest, nil)
	case "postgres", "postgresql":
		return postgres.Open(ctx, url, nil)
	case "etcd":
		return etcd.Open(ctx, url, nil)
	}
	return nil, fmt.Errorf("the store's URL begins with %q: known are bolt, postgres and etcd", scheme)
}

// prepare makes what the store needs before any process opens it.
func prepare(ctx context.Context, url string) error {
	if !strings.HasPrefix(url, "postgres") {
		return nil
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return postgres.Migrate(ctx, conn, nil)
}
