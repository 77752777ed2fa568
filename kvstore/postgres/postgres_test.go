package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	suite(t, func(t *testing.T, server *postgrestest.Server, schema string) kvstore.Store {
		return open(t, server, &postgres.Options{Schema: schema})
	})
}

// Several stores over one schema are as one: what orders their writes is the
// server, and not a store's queue. One of them sends no prepared statements, and
// the connections of two have other isolation levels by default.
func TestPostgresOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const level = "&default_transaction_isolation="
	suite(t, func(t *testing.T, server *postgrestest.Server, schema string) kvstore.Store {
		s := &several{}
		for _, kind := range []string{"", "unprepared", "serializable", "repeatable%20read"} {
			url, o := server.URL(), &postgres.Options{Schema: schema}
			switch kind {
			case "unprepared":
				o.NoPreparedStatements = true
			case "serializable", "repeatable%20read":
				url += level + kind
			}
			one, err := postgres.Open(t.Context(), url, o)
			must(t, err)
			t.Cleanup(func() { one.Close() })
			s.stores = append(s.stores, one)
		}
		return s
	})
}

// suite runs what every engine passes.
func suite(
	t *testing.T, at func(t *testing.T, server *postgrestest.Server, schema string) kvstore.Store,
) {
	server := postgrestest.Shared(t)
	schemas := map[kvstore.Store]string{}
	open := func(t *testing.T, schema string) kvstore.Store {
		s := at(t, server, schema)
		schemas[s] = schema
		return s
	}
	kvtest.Run(t, kvtest.Config{
		Open:   func(t *testing.T) kvstore.Store { return open(t, migrated(t, server)) },
		Reopen: func(t *testing.T, s kvstore.Store) kvstore.Store { return open(t, schemas[s]) },
	})
}

// several are stores over one schema, which take turns.
type several struct {
	stores []*postgres.Store
	turn   atomic.Uint64
}

func (s *several) next() kvstore.Store { return s.stores[s.turn.Add(1)%uint64(len(s.stores))] }

func (s *several) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	return s.next().Get(ctx, key)
}

func (s *several) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	return s.next().Scan(ctx, r)
}

func (s *several) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	return s.next().Apply(ctx, b)
}

func (s *several) Close() error {
	var err error
	for _, one := range s.stores {
		err = errors.Join(err, one.Close())
	}
	return err
}
