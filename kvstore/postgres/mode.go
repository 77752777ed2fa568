package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"
)

// mode is how a statement goes to the server, before its arguments. Values come
// in binary: as texts they depend on settings of the connection, such as
// bytea_output and DateStyle.
func mode(o Options, q querier, args ...any) []any {
	m := modesOf(q.Conn())
	if o.NoPreparedStatements {
		return append([]any{m.unprepared}, args...)
	}
	return append([]any{m.usual}, args...)
}

// modes are those of a connection.
type modes struct{ usual, unprepared pgx.QueryExecMode }

// configured marks a connection with its modes: pgx copies a connection's whole
// configuration for whom asks.
const configured = "fermata: modes"

func modesOf(conn *pgx.Conn) modes {
	seen := conn.PgConn().CustomData()
	if m, ok := seen[configured].(modes); ok {
		return m
	}
	c := conn.Config()
	m := modes{usual: c.DefaultQueryExecMode, unprepared: pgx.QueryExecModeCacheDescribe}
	if sendsTexts(c) {
		m.usual = m.unprepared
	}
	seen[configured] = m
	return m
}

func sendsTexts(c *pgx.ConnConfig) bool {
	return c.DefaultQueryExecMode == pgx.QueryExecModeExec ||
		c.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
}

// checkModes refuses a pool without the cache that values in binary need where
// statements aren't prepared. To describe a statement before each use takes two
// round trips, which a pooler may send to two connections.
func checkModes(o Options, c *pgx.ConnConfig) error {
	if c.DescriptionCacheCapacity > 0 || !o.NoPreparedStatements && !sendsTexts(c) {
		return nil
	}
	return errors.New("kvstore/postgres: without prepared statements the pool needs a cache of " +
		"their descriptions: set DescriptionCacheCapacity above 0")
}
