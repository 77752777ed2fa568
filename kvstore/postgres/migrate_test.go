package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// sql runs a statement as the role that may do all.
func sql(t testing.TB, server *postgrestest.Server, text string, args ...any) {
	t.Helper()
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		_, err := c.Exec(ctx, text, args...)
		return err
	}))
}

func TestMigrateFromSeveralProcesses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	role, url := withRole(t, server)
	for range 3 {
		schema := server.Schema(t)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				migrated := func(ctx context.Context, c conn) error {
					return postgres.Migrate(ctx, c, &postgres.MigrateOptions{Schema: schema,
						Runner: role})
				}
				if err := withConn(server, migrated); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s, err := postgres.Open(t.Context(), url, &postgres.Options{Schema: schema})
		must(t, err)
		_, err = s.Apply(t.Context(), put("a", "1"))
		must(t, err)
		must(t, s.Close())
	}
}

// withRole makes a role that may connect, for the time of the test, and returns
// a URL to the server as that role.
func withRole(t testing.TB, server *postgrestest.Server) (name, as string) {
	t.Helper()
	name = "role_" + strings.ToLower(rand.Text()[:16])
	sql(t, server, "CREATE ROLE "+name+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		sql(t, server, "DROP OWNED BY "+name+" CASCADE")
		sql(t, server, "DROP ROLE "+name)
	})
	u, err := url.Parse(server.URL())
	must(t, err)
	u.User = url.UserPassword(name, "secret")
	return name, u.String()
}

// The role that owns a schema migrates it, also if it can make none.
func TestOwnerWhoMakesNoSchemas(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	ctx, schema := t.Context(), server.Schema(t)
	role, url := withRole(t, server)
	c, err := pgx.Connect(ctx, url)
	must(t, err)
	defer c.Close(ctx)
	o := &postgres.MigrateOptions{Schema: schema}
	var p *pgconn.PgError
	if err := postgres.Migrate(ctx, c, o); !errors.As(err, &p) || p.Code != "42501" {
		t.Errorf("it has made a schema: %v", err)
	}
	sql(t, server, "CREATE SCHEMA "+schema+" AUTHORIZATION "+role)
	for range 2 {
		must(t, postgres.Migrate(ctx, c, o))
	}
	s, err := postgres.Open(ctx, url, &postgres.Options{Schema: schema})
	must(t, err)
	defer s.Close()
	_, err = s.Apply(ctx, put("a", "1"))
	must(t, err)
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	refused := func(want error, o *postgres.Options, says string) {
		t.Helper()
		s, err := postgres.Open(t.Context(), server.URL(), o)
		if err == nil {
			s.Close()
		}
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v; want %v, and %q", *o, err, want, says)
		}
	}
	refused(postgres.ErrNotMigrated, &postgres.Options{Schema: server.Schema(t)}, "call Migrate first")
	refused(nil, &postgres.Options{Schema: strings.Repeat("x", 64)}, "64 bytes")
	refused(nil, &postgres.Options{Schema: "pg_mine"}, "pg_")
	refused(nil, &postgres.Options{Schema: "a$$b"}, "has $$")
	schema := migrated(t, server)
	// The next version, which programs of this one work with, and the one after.
	sql(t, server, "INSERT INTO "+schema+".migrations VALUES (2, 1)")
	must(t, open(t, server, &postgres.Options{Schema: schema}).Close())
	sql(t, server, "INSERT INTO "+schema+".migrations VALUES (3, 2)")
	refused(postgres.ErrNewerSchema, &postgres.Options{Schema: schema}, "version 3, which works with programs from version 2")
	migrate(t, server, &postgres.MigrateOptions{Schema: schema}) // and this leaves it so
	refused(postgres.ErrNewerSchema, &postgres.Options{Schema: schema}, "version 3")
}

// A schema's name may be any, and is quoted wherever it stands.
func TestSchemaOfAnyName(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name := `It's $1 "one", {role}; -- ü`
	t.Cleanup(func() { sql(t, server, "DROP SCHEMA "+pgx.Identifier{name}.Sanitize()+" CASCADE") })
	migrate(t, server, &postgres.MigrateOptions{Schema: name})
	s := open(t, server, &postgres.Options{Schema: name})
	r, err := s.Apply(t.Context(), put("a", "1"))
	must(t, err)
	e, err := s.Get(t.Context(), []byte("a"))
	if err != nil || e.Revision != r {
		t.Errorf("Get: %+v, %v", e, err)
	}
}

// A role that only runs reads and writes, and changes nothing else.
func TestRoleThatOnlyRuns(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	role, url := withRole(t, server)
	migrate(t, server, &postgres.MigrateOptions{Schema: schema, Runner: role})
	s, err := postgres.Open(t.Context(), url, &postgres.Options{Schema: schema})
	must(t, err)
	defer s.Close()
	r, err := s.Apply(t.Context(), put("a", "1"))
	must(t, err)
	_, err = s.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{[]byte("a")},
		Preconditions: []kvstore.Precondition{{Key: []byte("a"), Revision: r}}})
	must(t, err)
	_, err = s.Scan(t.Context(), kvstore.Range{})
	must(t, err)
	ctx := t.Context()
	own, err := pgx.Connect(ctx, url)
	must(t, err)
	defer own.Close(ctx)
	for _, no := range []string{
		"CREATE TABLE " + schema + ".mine (a int)",
		"DROP TABLE " + schema + ".entries",
		"ALTER TABLE " + schema + ".entries ADD a int",
		"TRUNCATE " + schema + ".entries",
		"INSERT INTO " + schema + ".migrations VALUES (9, 9)",
		"SELECT setval('" + schema + ".revisions', 1)",
		"ALTER SEQUENCE " + schema + ".revisions RESTART",
	} {
		if _, err := own.Exec(ctx, no); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", no, err)
		}
	}
	if err := postgres.Restored(ctx, own, schema); err == nil {
		t.Error("it may move revisions")
	}
}

// After a backup was restored, revisions go on above all that were given out
// since it was made.
func TestRestored(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	s := open(t, server, &postgres.Options{Schema: schema})
	_, err := s.Apply(t.Context(), put("a", "1"))
	must(t, err)
	sql(t, server, "CREATE TABLE "+schema+".backup AS SELECT last_value FROM "+schema+".revisions")
	var last kvstore.Revision
	for range 10 {
		last, err = s.Apply(t.Context(), put("b", "1"))
		must(t, err)
	}
	sql(t, server, "DELETE FROM "+schema+".entries WHERE key = 'b'")
	sql(t, server, "SELECT setval('"+schema+".revisions', (SELECT last_value FROM "+schema+".backup))")
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		return postgres.Restored(ctx, c, schema)
	}))
	r, err := s.Apply(t.Context(), put("b", "2"))
	if err != nil || r <= last {
		t.Errorf("revision %d after the restore, %d before: %v", r, last, err)
	}
}

// Plans are made once for each connection: made for each call they cost more
// than the call, as soon as the table is large.
func TestPlansAreMadeOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	conn, err := pgx.Connect(t.Context(), server.URL())
	must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var all, once int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*),
		count(*) FILTER (WHERE 'plan_cache_mode=force_generic_plan' = ANY (proconfig))
		FROM pg_proc WHERE pronamespace = $1::regnamespace AND proname IN ('get', 'scan', 'apply')`,
		schema).Scan(&all, &once))
	if all != 3 || once != all {
		t.Errorf("%d of %d functions have their plans made once", once, all)
	}
}
