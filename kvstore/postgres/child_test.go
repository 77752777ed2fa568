package postgres_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childEnv names what this test binary does when a test starts it again, as
// another process, with its arguments.
const childEnv = "FERMATA_POSTGRES_TEST_CHILD"

var children = map[string]func(args []string){"pay": payAsChild}

// beChild reports whether this is such a process, when it has done its work.
func beChild() bool {
	args := strings.Fields(os.Getenv(childEnv))
	if len(args) == 0 {
		return false
	}
	children[args[0]](args[1:])
	return true
}

// exitOn ends a child that has failed.
func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is another process. It prints lines, and reads them.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

func startChild(t testing.TB, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	c := &child{t: t, cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, " "))
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	c.lines = bufio.NewScanner(out)
	t.Cleanup(c.kill)
	return c
}

// line waits for the next one; empty: there is none.
func (c *child) line() string {
	c.lines.Scan()
	return c.lines.Text()
}

func (c *child) says(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Errorf("a child says %q, want %q", got, want)
	}
}

// kill ends it as a crash would.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
}
