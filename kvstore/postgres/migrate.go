package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed sql
var scripts embed.FS

// migration is one step of the schema. Since is the least version whose
// programs can work beside it: during a deploy, programs of both run.
type migration struct{ version, since int }

// migrations are those that this package knows, in order; the number names the
// file in sql.
var migrations = []migration{{version: 1, since: 1}}

// ErrNotMigrated refuses a schema that Migrate has to make, or to bring to this
// version, first.
var ErrNotMigrated = errors.New("kvstore/postgres: the schema is not migrated")

// ErrNewerSchema refuses a schema of a later version of this package, with which
// this one can't work.
var ErrNewerSchema = errors.New("kvstore/postgres: the schema is of a newer version")

// MigrateOptions are for [Migrate]; nil is right for a program whose one role
// does all.
type MigrateOptions struct {
	// Schema is as in [Options].
	Schema string
	// Runner is a role that is there, and is given what Open and New need, and
	// no more: to read and write, not to change the schema. Empty: none.
	Runner string
}

// Migrate makes the store's schema, or brings it up to this version: as a role
// that may create schemas in the database, or owns this one. It is safe to call
// from several processes at once, and again. Each step is one transaction.
//
// Call it before the programs of a new version are started: those of the version
// before go on beside them.
func Migrate(ctx context.Context, conn *pgx.Conn, o *MigrateOptions) error {
	if o == nil {
		o = &MigrateOptions{}
	}
	schema := o.Schema
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return err
	}
	if err := writable(ctx, conn.PgConn()); err != nil {
		return err
	}
	for _, m := range migrations {
		err := alone(ctx, conn, schema, func(tx pgx.Tx) error { return m.run(ctx, tx, schema) })
		if err != nil {
			return fmt.Errorf("kvstore/postgres: migrate schema %q to version %d: %w",
				schema, m.version, err)
		}
	}
	if o.Runner == "" {
		return nil
	}
	err := alone(ctx, conn, schema, func(tx pgx.Tx) error {
		return exec(ctx, tx.Conn(), grants(schema, o.Runner))
	})
	if err != nil {
		return fmt.Errorf("kvstore/postgres: grants to role %q: %w", o.Runner, err)
	}
	return nil
}

// alone calls f in a transaction that no other process has for the schema at the
// same time. Without the lock the others would fail, and the schema would be as
// right: a step is a transaction, and its number a key.
func alone(ctx context.Context, conn *pgx.Conn, schema string, f func(pgx.Tx) error) error {
	h := fnv.New64a()
	h.Write([]byte("fermata migrates " + schema))
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted},
		func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pgx.QueryExecModeExec,
				int64(h.Sum64()))
			if err != nil {
				return err
			}
			return f(tx)
		})
}

// makeSchema makes the schema, unless it is there: also then, IF NOT EXISTS asks
// for the right to create schemas, which their owner need not have.
func makeSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	var there bool
	err := tx.QueryRow(ctx,
		"SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)",
		pgx.QueryExecModeExec, schema).Scan(&there)
	if err != nil || there {
		return err
	}
	return exec(ctx, tx.Conn(), within(schema, "CREATE SCHEMA {schema}"))
}

// run brings the schema to a version, unless it is there.
func (m migration) run(ctx context.Context, tx pgx.Tx, schema string) error {
	if err := makeSchema(ctx, tx, schema); err != nil {
		return err
	}
	err := exec(ctx, tx.Conn(), within(schema, `
		CREATE TABLE IF NOT EXISTS {schema}.migrations (
			version int NOT NULL PRIMARY KEY,
			since   int NOT NULL, -- programs of this version and later work with it
			at      timestamptz NOT NULL DEFAULT now()
		);`))
	if err != nil {
		return err
	}
	var there bool
	err = tx.QueryRow(ctx, within(schema,
		"SELECT EXISTS (SELECT 1 FROM {schema}.migrations WHERE version >= $1)"),
		pgx.QueryExecModeExec, m.version).Scan(&there)
	if err != nil || there {
		return err
	}
	script, err := scripts.ReadFile(fmt.Sprintf("sql/%04d.sql", m.version))
	if err != nil {
		return err
	}
	if err := exec(ctx, tx.Conn(), within(schema, string(script))); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, within(schema,
		"INSERT INTO {schema}.migrations (version, since) VALUES ($1, $2)"),
		pgx.QueryExecModeExec, m.version, m.since)
	return err
}

// exec sends statements that return nothing and have no arguments, together.
func exec(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// grants are what a role needs that only runs.
func grants(schema, role string) string {
	return within(schema, `
		GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT SELECT ON {schema}.migrations TO {role};
		GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.entries TO {role};
		GRANT USAGE ON SEQUENCE {schema}.revisions TO {role};
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};`, "role", role)
}

// checkVersion refuses a schema that this program can't work with.
func checkVersion(ctx context.Context, conn *pgx.Conn, schema string) error {
	newest := migrations[len(migrations)-1].version
	var version, since int
	err := conn.QueryRow(ctx, within(schema,
		"SELECT coalesce(max(version), 0), coalesce(max(since), 0) FROM {schema}.migrations"),
		pgx.QueryExecModeExec).Scan(&version, &since)
	var p *pgconn.PgError
	switch {
	case errors.As(err, &p) && (p.Code == "42P01" || p.Code == "3F000"): // no such table, schema
		return fmt.Errorf("%w: there is none named %q; call Migrate first", ErrNotMigrated, schema)
	case err != nil:
		return fmt.Errorf("kvstore/postgres: version of schema %q: %w", schema, err)
	case version < newest:
		return fmt.Errorf("%w: %q is of version %d, this program needs %d; call Migrate first",
			ErrNotMigrated, schema, version, newest)
	case since > newest:
		return fmt.Errorf("%w: %q is of version %d, which works with programs from version %d; "+
			"this one is of version %d", ErrNewerSchema, schema, version, since, newest)
	}
	return nil
}

// Restored makes a store's revisions go on far above those of a backup that was
// restored, or of a server that took over without all that the one before had
// acknowledged. Those that were given out since may be known to processes, and
// must not come again for something else. Call it before any program uses what
// was restored, as the role that owns the schema; programs that ran before are
// to be started again.
func Restored(ctx context.Context, conn *pgx.Conn, schema string) error {
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return err
	}
	// No store takes so many between two backups; and there is room for two
	// thousand million such steps.
	const step = 1 << 32
	_, err := conn.Exec(ctx, within(schema, "SELECT setval('{schema}.revisions', "+
		"greatest((SELECT last_value FROM {schema}.revisions), "+
		"(SELECT coalesce(max(revision), 0) FROM {schema}.entries)) + $1::bigint)"),
		pgx.QueryExecModeExec, int64(step))
	if err != nil {
		return fmt.Errorf("kvstore/postgres: revisions of schema %q: %w", schema, err)
	}
	return nil
}
