// Package postgrestest starts a PostgreSQL for tests, and for programs that show
// something: a server of the process's own, in a folder and on a port of its
// own, which ends with the process, however that ends. The server's programs
// have to be installed. They need no configuration, and no rights but to run;
// a process of root runs them as the user postgres, since they refuse root.
//
//	func TestWithPostgres(t *testing.T) {
//		server := postgrestest.Shared(t)
//		schema := server.Schema(t) // dropped when the test ends
//		…
//	}
//
// It is not for production: what it starts trusts everyone on the machine, and
// writes without fsync.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Variable is the environment variable with the URL of a server to use in place
// of one that is started. Its role has to be allowed to create schemas.
const Variable = "FERMATA_POSTGRES"

// ErrMissing tells that PostgreSQL's programs are not on this machine.
var ErrMissing = errors.New("postgrestest: PostgreSQL's programs (initdb, postgres) are missing; " +
	"Debian has them in the package postgresql")

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Shared returns the one server of the process, which is started when it is
// asked for first, or the one that [Variable] names. Where PostgreSQL is
// missing, the test is skipped; with CI=true in the environment it fails.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		if url := os.Getenv(Variable); url != "" {
			shared.server = &Server{url: url}
			return
		}
		shared.server, shared.err = Start(nil)
	})
	Need(t, shared.err)
	return shared.server
}

// Need ends the test if err is not nil: as skipped, where PostgreSQL is missing
// and needn't be there.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// URL returns how to connect to the server, as a role that may do all.
func (s *Server) URL() string { return s.url }

// Schema returns a name for a schema, which is dropped when the test ends.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:16])
	t.Cleanup(func() {
		if err := s.drop(name); err != nil {
			t.Errorf("drop schema %s: %v", name, err)
		}
	})
	return name
}

func (s *Server) drop(schema string) error {
	ctx := context.Background() // the test's has ended
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, fmt.Sprintf("DROP SCHEMA IF EXISTS %s CASCADE",
		pgx.Identifier{schema}.Sanitize()))
	return err
}
