package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// server is the PostgreSQL that all systems share, each with a database.
type server struct {
	pg   *postgrestest.Server
	conn *pgx.Conn // to the database in which nothing else is
}

// settings are those of a server that is meant to last, but for the last ones,
// which only keep what is to be counted.
var settings = []string{
	"shared_buffers=1GB", "max_wal_size=4GB", "max_connections=200",
	"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=10000",
	"wal_keep_size=4GB",
}

func startServer(ctx context.Context) (*server, error) {
	pg, err := postgrestest.Start(&postgrestest.Options{Fsync: true, Settings: settings})
	if err != nil {
		return nil, err
	}
	s := &server{pg: pg}
	s.conn, err = pgx.Connect(ctx, pg.URL())
	if err == nil {
		_, err = s.conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements; CREATE EXTENSION pg_walinspect")
	}
	if err != nil {
		_ = s.close()
		return nil, fmt.Errorf("the server: %w", err)
	}
	return s, nil
}

func (s *server) close() error {
	if s.conn != nil {
		_ = s.conn.Close(context.Background())
	}
	return s.pg.Close()
}

// database makes an empty database, and returns its URL.
func (s *server) database(ctx context.Context, name string) (string, error) {
	if _, err := s.conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	u, err := url.Parse(s.pg.URL())
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// version returns the server's.
func (s *server) version(ctx context.Context) (v string, err error) {
	err = s.conn.QueryRow(ctx, "SHOW server_version").Scan(&v)
	v, _, _ = strings.Cut(v, " ")
	return v, err
}

// reading is what the server has done so far.
type reading struct {
	statements int64
	at         string // in its log
	syncs      int64
	cpu        float64 // seconds, of all its processes
}

func (s *server) read(ctx context.Context, database string) (r reading, err error) {
	// The statements that clients sent; those within functions aren't counted.
	err = s.conn.QueryRow(ctx, `SELECT
		(SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s
			JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1),
		pg_current_wal_flush_lsn()::text,
		(SELECT wal_sync FROM pg_stat_wal)`, database).Scan(&r.statements, &r.at, &r.syncs)
	r.cpu = s.cpu()
	return r, err
}

// written is what stands in the server's log between two places.
type written struct {
	bytes, pages int64 // of them, whole pages after a checkpoint
	commits      int64 // of transactions that have written
}

func (s *server) written(ctx context.Context, from, to string) (w written, err error) {
	err = s.conn.QueryRow(ctx, `SELECT
		coalesce(sum(combined_size), 0)::bigint, coalesce(sum(fpi_size), 0)::bigint,
		coalesce(sum(count) FILTER (WHERE "resource_manager/record_type" IN
			('Transaction/COMMIT', 'Transaction/COMMIT_PREPARED')), 0)::bigint
		FROM pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, true)`, from, to).
		Scan(&w.bytes, &w.pages, &w.commits)
	return w, err
}

// cpu returns how many seconds of a processor the server's processes have used,
// also those that have ended. Zero: it isn't known here.
func (s *server) cpu() float64 {
	pid, err := os.ReadFile(filepath.Join(s.pg.Data(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(pid), "\n")
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	var ticks int64
	for _, file := range all {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		if len(f) < 15 {
			continue
		}
		of := filepath.Base(filepath.Dir(file))
		switch {
		case of == first: // with those that it has waited for
			ticks += number(f[11]) + number(f[12]) + number(f[13]) + number(f[14])
		case f[1] == first:
			ticks += number(f[11]) + number(f[12])
		}
	}
	const perSecond = 100 // on every Linux that Go runs on
	return float64(ticks) / perSecond
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
