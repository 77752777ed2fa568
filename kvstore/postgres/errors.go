package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermata-ai/fermata/kvstore"
)

// ErrLocked is the error of a batch that waited for a key that another
// transaction holds, and was not applied.
var ErrLocked = errors.New("kvstore/postgres: another transaction holds a key")

// The server's codes that this package knows, from its manual's appendix A.
const (
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeUncertain      = "40003" // statement completion unknown
	codeLock           = "55P03"
	codeDataCorrupted  = "XX001"
	codeIndexCorrupted = "XX002"
	codeReadOnly       = "25006"
	classConnection    = "08"
)

// code returns the server's code of an error, or nothing.
func code(err error) string {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// certain reports whether a statement that failed has left nothing, and never
// will. The server that refuses a statement goes on with the connection. One
// that ends it (its severity is FATAL then) may have committed before, and so may
// one that a pooler has lost: what that tells need not be FATAL.
func certain(err error, conn *pgx.Conn) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return (p.SeverityUnlocalized == "ERROR" || p.Severity == "ERROR") && !conn.IsClosed() &&
			p.Code != codeUncertain && !strings.HasPrefix(p.Code, classConnection)
	}
	return pgconn.SafeToRetry(err) // nothing was sent
}

// IsRetryable reports whether an error means that a transaction was in the way of
// another one: a serialization failure, or a deadlock. A caller of [Store.In]
// then rolls back, and begins again.
func IsRetryable(err error) bool {
	c := code(err)
	return c == codeSerialization || c == codeDeadlock
}

// told is an error of the server's as the engine's callers get it.
func (s *Store) told(what string, key []byte, err error) error {
	err = fmt.Errorf("kvstore/postgres: %s: %w", what, err)
	switch code(err) {
	case codeLock:
		return fmt.Errorf("%w, for %v and longer: %w", ErrLocked, s.o.LockTimeout, err)
	case codeReadOnly:
		return fmt.Errorf("%w: %w", ErrStandby, err)
	case codeDataCorrupted, codeIndexCorrupted:
		return &kvstore.CorruptError{Store: "schema " + s.o.Schema, Key: key, Err: err}
	}
	return err
}
