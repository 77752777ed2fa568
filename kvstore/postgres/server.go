package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The errors of servers that a store refuses.
var (
	// ErrStandby refuses a server that can't be written to: what it has may be
	// old. In a transaction that its user began as read-only, Apply of [Within]
	// fails with it too.
	ErrStandby = errors.New("kvstore/postgres: the server is a standby, or the transaction read-only")
	// ErrNotPostgreSQL refuses a server that only speaks its protocol.
	ErrNotPostgreSQL = errors.New("kvstore/postgres: the server isn't PostgreSQL")
)

// oldest is the first version of PostgreSQL that is taken.
const oldest = 13

// acquire returns a connection to a server that can be written to. It looks once
// for each connection: a server that becomes a standby ends those that it has.
// Behind a pooler they stay, and reads look for themselves.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("kvstore/postgres: connect: %w", err)
	}
	seen := conn.Conn().PgConn().CustomData()
	if seen[looked] == nil {
		isolation, err := look(ctx, conn.Conn().PgConn())
		if err != nil {
			conn.Release()
			return nil, err
		}
		seen[looked] = isolation
	}
	return conn, nil
}

// looked marks a connection whose server can be written to, with the isolation
// level of its transactions.
const looked = "fermata: writable"

// writable returns an error if a connection's server can't be written to.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := look(ctx, conn)
	return err
}

// look is writable, and returns the isolation level that transactions of the
// connection have which don't choose one.
func look(ctx context.Context, conn *pgconn.PgConn) (pgx.TxIsoLevel, error) {
	results, err := conn.Exec(ctx, "SELECT pg_catalog.pg_is_in_recovery(), "+
		"pg_catalog.current_setting('transaction_read_only'), "+
		"pg_catalog.current_setting('transaction_isolation')").ReadAll()
	if err != nil {
		return "", fmt.Errorf("kvstore/postgres: connect: %w", err)
	}
	row := results[0].Rows[0]
	if string(row[0]) != "f" || string(row[1]) != "off" {
		return "", fmt.Errorf("%w: %s", ErrStandby, conn.Conn().RemoteAddr())
	}
	return pgx.TxIsoLevel(row[2]), nil
}

// checkServer refuses a server on which what this engine relies on isn't known
// to hold.
func (s *Store) checkServer(ctx context.Context, conn querier) error {
	var version string
	var now time.Time
	asked := time.Now()
	err := conn.QueryRow(ctx, "SELECT version(), clock_timestamp()", mode(s.o, conn)...).
		Scan(&version, &now)
	if err != nil {
		return fmt.Errorf("kvstore/postgres: the server's version: %w", err)
	}
	s.time.Observe(asked, now)
	if s.o.AllowOtherServers {
		return nil
	}
	return judge(version)
}

// judge reads what version() returns.
func judge(version string) error {
	var major int
	_, err := fmt.Sscanf(version, "PostgreSQL %d", &major)
	switch {
	case err != nil, strings.Contains(version, "-YB-"), strings.Contains(version, "CockroachDB"):
		return fmt.Errorf("%w: it is %q; sequences and locks differ there, and "+
			"Options.AllowOtherServers takes it all the same", ErrNotPostgreSQL, version)
	case major < oldest:
		return fmt.Errorf("kvstore/postgres: the server is %q; %d or newer is needed",
			version, oldest)
	}
	return nil
}
