package process

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// runtimeDir, in the environment of this test's program, makes it a runtime
// that starts a script with records in that folder, and then does nothing.
const (
	runtimeDir    = "FERMATA_TEST_RUNTIME"
	runtimeScript = "FERMATA_TEST_SCRIPT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(runtimeDir); dir != "" {
		if err := beRuntime(dir, os.Getenv(runtimeScript)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	if os.Getenv(ownGroup) != "" {
		signal.Ignore(syscall.SIGTERM)
		if err := syscall.Setpgid(0, 0); err != nil {
			os.Exit(1)
		}
		fmt.Println(os.Getpid())
		select {}
	}
	goleak.VerifyTestMain(m)
}

// ownGroup, in its environment, makes it one that goes into a group of its own,
// as the jobs of an interactive shell are, prints its number, and is deaf.
const ownGroup = "FERMATA_TEST_GROUP"

// beRuntime starts a script, which writes to the standard output, and waits to
// be killed.
func beRuntime(dir, script string) error {
	l, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	p, err := l.Start(background(), shell(script, os.Stdout))
	if err != nil {
		return err
	}
	fmt.Println("program", p.Pid())
	select {}
}

// shell returns a program that runs a script of sh.
func shell(script string, out *os.File) Program {
	none, _ := os.Open(os.DevNull)
	return Program{Path: "/bin/sh", Args: []string{"-c", script},
		Files: [3]*os.File{none, out, os.Stderr}}
}

// open returns a launcher with records in a folder, and what it logs.
func open(t *testing.T, dir string) (*Launcher, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l, err := Open(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l, &log
}

// output is what a program writes, line by line.
type output struct {
	t     *testing.T
	lines *bufio.Reader
}

// run starts a script, and returns what reads its output.
func run(t *testing.T, l *Launcher, script string) (*Process, *output) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close() })
	p, err := l.Start(t.Context(), shell(script, w))
	w.Close()
	must(t, err)
	return p, &output{t, bufio.NewReader(r)}
}

// pid reads a line that is a number.
func (o *output) pid() int {
	o.t.Helper()
	line, err := o.lines.ReadString('\n')
	must(o.t, err)
	fields := strings.Fields(line)
	n, err := strconv.Atoi(fields[len(fields)-1])
	must(o.t, err)
	return n
}

// rest reads until the last of the program's group has closed its output.
func (o *output) rest() string {
	o.t.Helper()
	all, err := io.ReadAll(o.lines)
	must(o.t, err)
	return string(all)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within polls a condition that another process brings about.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	bound := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-look.C:
		case <-bound:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}
