package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoPooler tells that pgbouncer is not on this machine.
var ErrNoPooler = errors.New("postgrestest: pgbouncer is missing; Debian has it in the package pgbouncer")

// Pooler starts pgbouncer in front of the server, in its transaction mode: it
// hands each transaction to one of a few connections. It returns its URL, and
// ends with the test, or the process. Where it is missing, or the server isn't
// ours, the test is skipped; with CI=true in the environment it fails.
func (s *Server) Pooler(t testing.TB) string {
	t.Helper()
	if s.dir == "" {
		t.Skip("a server that is elsewhere has no pooler here")
	}
	at, end, err := s.startPooler()
	if errors.Is(err, ErrNoPooler) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return at
}

func (s *Server) startPooler() (at string, end func(), err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // it is in no user's PATH
		if _, err := os.Stat(program); err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrNoPooler, err)
		}
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return "", nil, err
	}
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n"+
		"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n"+
		"pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n",
		u.Hostname(), u.Port(), u.User.Username(), port)
	file := filepath.Join(s.dir, "pooler-"+strconv.Itoa(port))
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return "", nil, err
	}
	// A shell ends it when this process is gone.
	const script = `"$1" -q "$2" & pid=$!; cat >/dev/null; kill "$pid"; wait "$pid"`
	cmd := asServer(exec.Command("sh", "-c", script, "sh", program, file))
	alive, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = io.Discard
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		alive.Close()
		_ = cmd.Wait() // it is told to end by a signal
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	if err := answers(u.String()); err != nil {
		end()
		return "", nil, fmt.Errorf("postgrestest: pgbouncer doesn't answer: %w", err)
	}
	return u.String(), end, nil
}

// answers waits until a server answers at a URL.
func answers(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
