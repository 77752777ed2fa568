package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const isChat = "FERMATA_CHAT_TEST"

// TestMain runs the program itself in the processes that tests start.
func TestMain(m *testing.M) {
	if os.Getenv(isChat) != "" {
		main()
		os.Exit(0)
	}
	// The metrics of Gemini's SDK start a worker that has no end.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// conversation is a process of the program, at the other end of two pipes.
type conversation struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	errors strings.Builder
	text   strings.Builder // all that it has shown
}

// file returns the path of a new file for sessions.
func file(t *testing.T) string { return filepath.Join(t.TempDir(), "chat.db") }

// talk starts the program with nothing in its environment but what is given,
// such as "OPENAI_API_KEY=k".
func talk(t *testing.T, env []string, args ...string) *conversation {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := &conversation{t: t, cmd: exec.CommandContext(ctx, exe, args...)}
	c.cmd.Env = append([]string{isChat + "=1", "TMPDIR=" + os.TempDir()}, env...)
	c.cmd.Stderr = &c.errors
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdout = bufio.NewReader(io.TeeReader(stdout, &c.text))
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// says types a line.
func (c *conversation) says(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		c.t.Fatalf("%v, after\n%s%s", err, c.text.String(), c.errors.String())
	}
}

// sees reads up to a line that matches each pattern in turn.
func (c *conversation) sees(patterns ...string) {
	c.t.Helper()
	for _, p := range patterns {
		re := regexp.MustCompile(p)
		for {
			line, err := c.stdout.ReadString('\n')
			if re.MatchString(strings.TrimSuffix(line, "\n")) {
				break
			}
			if err != nil {
				c.t.Fatalf("no %q, but %v, at the end of\n%s%s",
					p, err, c.text.String(), c.errors.String())
			}
		}
	}
}

// leaves types /quit, and returns all that the program has shown.
func (c *conversation) leaves() string {
	c.t.Helper()
	c.says("/quit")
	return c.ends()
}

// ends closes the input, waits for the program to succeed, and returns all that
// it has shown.
func (c *conversation) ends() string {
	c.t.Helper()
	c.stdin.Close()
	if _, err := io.Copy(io.Discard, c.stdout); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil || c.errors.Len() > 0 {
		c.t.Fatalf("%v, after\n%s%s", err, c.text.String(), c.errors.String())
	}
	return c.text.String()
}

// fails waits for the program to fail, and returns its error.
func (c *conversation) fails() string {
	c.t.Helper()
	c.stdin.Close()
	if _, err := io.Copy(io.Discard, c.stdout); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err == nil {
		c.t.Fatalf("it succeeds, after\n%s", c.text.String())
	}
	return c.errors.String()
}

// times returns how often the pattern matches the text.
func times(text, pattern string) int {
	return len(regexp.MustCompile(pattern).FindAllString(text, -1))
}
