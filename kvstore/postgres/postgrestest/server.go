package postgrestest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Options for [Start]; nil is right for most.
type Options struct {
	// Fsync has the server write as one that is meant to last, for measurements.
	Fsync bool
	// Settings are further ones of the server: "max_connections=200".
	Settings []string
}

// Server is a running PostgreSQL.
type Server struct {
	url  string
	dir  string // empty: it isn't ours
	port int
	o    Options

	// mu guards what follows.
	mu      sync.Mutex
	process *exec.Cmd // nil: it isn't running
	guard   *exec.Cmd // ends the server when this process has ended
	alive   *os.File  // what the guard waits for the end of
}

// Start starts a server, with an empty database. It takes about a second.
func Start(o *Options) (*Server, error) {
	s := &Server{}
	if o != nil {
		s.o = *o
	}
	if err := s.make(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Restart(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// make makes the folder of the server's data, and the guard that removes it.
func (s *Server) make() error {
	initdb, err := program("initdb")
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "fermata-postgres"); err != nil {
		return err
	}
	if err := own(s.dir); err != nil {
		return err
	}
	out, err := asServer(exec.Command(initdb, "-D", s.data(), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("postgrestest: initdb: %w: %s", err, out)
	}
	return s.watch()
}

// Data returns the folder of the server's data; empty: the server isn't ours.
func (s *Server) Data() string {
	if s.dir == "" {
		return ""
	}
	return s.data()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// watch starts the guard. A shell it is, since nothing of this process is left
// to do it.
func (s *Server) watch() error {
	const script = `cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null &&
	while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
rm -rf "$1"`
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	guard := exec.Command("sh", "-c", script, "sh", s.dir)
	guard.Stdin = read
	detach(guard)
	if err := guard.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	s.guard, s.alive = guard, write
	return nil
}

// Restart starts the server again, after Stop or Kill, at the same URL.
func (s *Server) Restart() error {
	var err error
	for range 3 { // another process may take the port in between
		if err = s.start(); err == nil {
			return nil
		}
		s.Kill()
	}
	return err
}

func (s *Server) start() error {
	postgres, err := program("postgres")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.port == 0 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		s.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	}
	settings := []string{"port=" + strconv.Itoa(s.port), "listen_addresses=127.0.0.1",
		"unix_socket_directories=", "shared_buffers=32MB", "max_connections=200"}
	if !s.o.Fsync {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", s.data()}
	for _, setting := range append(settings, s.o.Settings...) {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process := asServer(exec.Command(postgres, args...))
	process.Stdout, process.Stderr = log, log
	detach(process)
	if err := process.Start(); err != nil {
		return err
	}
	s.process = process
	return s.ready()
}

// ready waits until the server answers.
func (s *Server) ready() error {
	err := answers(s.url)
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("postgrestest: the server doesn't answer: %w: %s", err,
		log[max(0, len(log)-2000):])
}

// Stop ends the server in order: what is under way is rolled back, connections
// are told.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash would. The next start recovers what was
// committed.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(how syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	err := s.process.Process.Signal(how)
	var exited *exec.ExitError
	if wait := s.process.Wait(); err == nil && !errors.As(wait, &exited) {
		err = wait
	}
	s.process = nil
	return err
}

// Close ends the server, and removes what it has stored.
func (s *Server) Close() error {
	if s.dir == "" {
		return nil
	}
	err := s.Kill()
	if s.guard == nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	return errors.Join(err, s.alive.Close(), s.guard.Wait())
}

// program returns the path of one of PostgreSQL's programs: of the newest
// version in Debian's folders, which are in no PATH, or of the PATH.
func program(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return path, nil
}

// version is that of a path in Debian's folders.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
