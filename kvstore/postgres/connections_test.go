package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// pooled opens a store over a pool whose configuration f changes.
func pooled(
	t testing.TB, url string, o *postgres.Options, f func(*pgxpool.Config),
) *postgres.Store {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	must(t, err)
	f(c)
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	must(t, err)
	t.Cleanup(pool.Close)
	s, err := postgres.New(t.Context(), pool, o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// Whatever the texts of a connection look like, and however a pool sends
// statements, values are what was stored, and the time is the server's.
func TestSettingsOfConnections(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	key, value := []byte("k\\x\x00\xff"), []byte("v\\x\x00\xff")
	for _, usual := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		for _, unprepared := range []bool{false, true} {
			o := &postgres.Options{Schema: migrated(t, server), NoPreparedStatements: unprepared}
			s := pooled(t, server.URL(), o, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = usual
				c.ConnConfig.RuntimeParams["bytea_output"] = "escape"
				c.ConnConfig.RuntimeParams["DateStyle"] = "SQL, DMY"
				c.ConnConfig.RuntimeParams["TimeZone"] = "Asia/Kolkata"
			})
			_, err := s.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}})
			must(t, err)
			e, err := s.Get(t.Context(), key)
			if err != nil || !bytes.Equal(e.Value, value) {
				t.Errorf("%v, %v: Get: %q, %v", usual, unprepared, e.Value, err)
			}
			p, err := s.Scan(t.Context(), kvstore.Range{})
			if err != nil || len(p.Entries) != 1 || !bytes.Equal(p.Entries[0].Key, key) {
				t.Errorf("%v, %v: Scan: %v, %v", usual, unprepared, p.Entries, err)
			}
			if now, within := s.Now(); time.Since(now).Abs() > within+time.Minute {
				t.Errorf("%v, %v: Now is %v", usual, unprepared, now)
			}
		}
	}
}

// What a pool does before it connects, the connection of the signals does too:
// the password may come from there.
func TestListenerConnectsAsThePoolDoes(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	role, as := withRole(t, server)
	migrate(t, server, &postgres.MigrateOptions{Schema: schema, Runner: role})
	right, err := url.Parse(as)
	must(t, err)
	wrong := *right
	wrong.User = url.User("no_such_role")
	s := pooled(t, wrong.String(), &postgres.Options{Schema: schema}, func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.User = role
			c.Password, _ = right.User.Password()
			return nil
		}
	})
	woken := make(chan struct{}, 1)
	stop := s.Watch("work", func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer stop()
	select {
	case <-woken: // it listens
	case <-time.After(20 * time.Second):
		t.Error("it doesn't listen")
	}
}

// lines are what a logger writes, a line each.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// A store that can't connect to listen says so, once, and goes on. It leaves out
// the password.
func TestListenerThatCannotConnectSaysSo(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	log := make(lines, 10)
	s := open(t, server, &postgres.Options{Schema: migrated(t, server),
		Listen: "postgres://ada:secret@127.0.0.1:1/none?sslmode=disable",
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	defer s.Watch("work", func() {})()
	line := <-log
	if !strings.Contains(line, "no connection to listen on") || strings.Contains(line, "secret") {
		t.Errorf("it logs %q", line)
	}
	_, err := s.Apply(t.Context(), put("key", "1"))
	must(t, err)
	must(t, s.Close())
	if len(log) > 0 {
		t.Errorf("it logs more than once: %q", <-log)
	}
}

// A pool that neither prepares statements nor keeps their descriptions is
// refused: each would be described on one connection of a pooler's, and run on
// another.
func TestPoolWithoutDescriptions(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, usual := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		c, err := pgxpool.ParseConfig(server.URL())
		must(t, err)
		c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.DescriptionCacheCapacity = usual, 0
		pool, err := pgxpool.NewWithConfig(t.Context(), c)
		must(t, err)
		defer pool.Close()
		o := &postgres.Options{Schema: migrated(t, server),
			NoPreparedStatements: usual == pgx.QueryExecModeCacheStatement}
		if _, err := postgres.New(t.Context(), pool, o); err == nil ||
			!strings.Contains(err.Error(), "DescriptionCacheCapacity") {
			t.Errorf("%v: %v", usual, err)
		}
	}
}
