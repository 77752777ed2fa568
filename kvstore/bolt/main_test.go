package bolt_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
)

// childEnv names what this test binary does when a test starts it again, as
// another process.
const childEnv = "BOLT_TEST_CHILD"

var children = map[string]func(path string) error{
	"hold":  holdUntilKilled,
	"write": writeUntilKilled,
}

func TestMain(m *testing.M) {
	if do := children[os.Getenv(childEnv)]; do != nil {
		if err := do(os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func childCommand(t *testing.T, does, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, path)
	c.Env = append(os.Environ(), childEnv+"="+does)
	c.Stderr = os.Stderr
	return c
}

// child is another process. Each line that it prints reports that it has got
// somewhere.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, does, path string) *child {
	t.Helper()
	c := &child{t: t, cmd: childCommand(t, does, path)}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cmd.StdinPipe(); err != nil { // stays open as long as we do
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	t.Cleanup(func() { c.kill() })
	return c
}

// line waits for the next one.
func (c *child) line() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the child has ended: %v", c.lines.Err())
	}
	return c.lines.Text()
}

// kill ends it as a crash would, and returns the lines that are left.
func (c *child) kill() []string {
	if c.cmd.ProcessState != nil {
		return nil
	}
	c.cmd.Process.Kill()
	var rest []string
	for c.lines.Scan() {
		rest = append(rest, c.lines.Text())
	}
	c.cmd.Wait()
	return rest
}

func holdUntilKilled(path string) error {
	s, err := bolt.Open(path, nil)
	if err != nil {
		return err
	}
	fmt.Println("holds", s.Incarnation())
	_, err = io.Copy(io.Discard, os.Stdin) // it never ends: the parent kills us
	return err
}

// writeUntilKilled prints each key when it is durable.
func writeUntilKilled(path string) error {
	s, err := bolt.Open(path, nil)
	if err != nil {
		return err
	}
	var out sync.Mutex
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("w%d-%d", w, i)
				if _, err := s.Apply(context.Background(), put(key, strings.Repeat(key, 50))); err != nil {
					return
				}
				out.Lock()
				fmt.Println(key)
				out.Unlock()
			}
		})
	}
	writers.Wait()
	return nil
}

func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(key, value string) kvstore.Batch {
	return kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte(value)}}}
}

func apply(t *testing.T, s kvstore.Store, b kvstore.Batch) kvstore.Revision {
	t.Helper()
	r, err := s.Apply(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// all returns every entry, by key.
func all(t *testing.T, s kvstore.Store) map[string]kvstore.Entry {
	t.Helper()
	entries := map[string]kvstore.Entry{}
	var r kvstore.Range
	for {
		p, err := s.Scan(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			entries[string(e.Key)] = e
			r.After = e.Key
		}
		if !p.More {
			return entries
		}
	}
}
