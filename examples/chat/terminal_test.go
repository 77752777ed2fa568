//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keyboard is the other end of a terminal that the program runs at.
type keyboard struct {
	t    *testing.T
	cmd  *exec.Cmd
	ours *os.File
	seen strings.Builder
	from int // what was expected stands before this
}

func atTerminal(t *testing.T, env []string, args ...string) *keyboard {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	check(unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	check(err)
	check(unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}))
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	check(err)
	defer theirs.Close() // so that a read ends when the program has
	exe, err := os.Executable()
	check(err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	k := &keyboard{t: t, cmd: exec.CommandContext(ctx, exe, args...), ours: ours}
	k.cmd.Env = append([]string{isChat + "=1", "TERM=xterm"}, env...)
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = theirs, theirs, theirs
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(k.cmd.Start())
	return k
}

func (k *keyboard) types(keys string) {
	k.t.Helper()
	if _, err := k.ours.WriteString(keys); err != nil {
		k.t.Fatal(err)
	}
}

// sees reads until the texts have come, one after the other.
func (k *keyboard) sees(texts ...string) {
	k.t.Helper()
	buf := make([]byte, 4096)
	for _, text := range texts {
		for {
			// The program may write \r\n, of which a terminal makes that.
			seen := strings.ReplaceAll(k.seen.String(), "\r\r\n", "\r\n")
			if at := strings.Index(seen[k.from:], text); at >= 0 {
				k.from += at + len(text)
				break
			}
			n, err := k.ours.Read(buf)
			k.seen.Write(buf[:n])
			if err != nil {
				k.t.Fatalf("no %q, but %v, at the end of\n%q", text, err, k.seen.String())
			}
		}
	}
}

// ends waits for the program to succeed, and checks that the terminal is as it
// was.
func (k *keyboard) ends() {
	k.t.Helper()
	if err := k.cmd.Wait(); err != nil {
		k.t.Fatalf("%v, after\n%q", err, k.seen.String())
	}
	state, err := unix.IoctlGetTermios(int(k.ours.Fd()), unix.TCGETS)
	if err != nil {
		k.t.Fatal(err)
	}
	if state.Lflag&unix.ECHO == 0 || state.Lflag&unix.ICANON == 0 {
		k.t.Error("the terminal was left raw")
	}
}

// Text that comes while a line is typed stands above it; a bar takes the place
// of the one before it; reasoning is dim.
func TestTerminal(t *testing.T) {
	t.Parallel()
	k := atTerminal(t, nil, "-file", file(t), "-session", "s1", "-step=700ms")
	k.sees("Session: s1", "> ")
	k.types("deploy cart v1 to staging\r")
	k.sees("\x1b[2m  thinks  I need the result of deploy to go on.\x1b[0m\r\n",
		"deploy waits for a job", "> ")
	k.types("weather in")
	k.sees("weather in",
		"\x1b[1A\r\x1b[2K  job     [###############-----]  75 %  deploy: roll out\r\n> weather in")
	k.sees("Deployed: https://cart.staging.example.com, after 2 s.\r\n> weather in")
	k.types(" Oslo\r")
	k.sees("It has 3.5 degrees in Oslo.\r\n", "> ")
	k.types("\x03")
	k.sees("\r\n", "Kept: 8 messages and 0 waiting calls.")
	k.ends()
}

// While no line is typed, Ctrl-C is a signal, as in any program.
func TestTerminalWhileTheModelHangs(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := serveChat(t, hangs(asked))
	k := atTerminal(t, s.env(), "-file", file(t), "-session", "s1", "-model", "small")
	k.sees("> ")
	k.types("hello\r")
	<-asked
	k.types("\x03")
	k.sees("the run is interrupted", "Kept: 1 message")
	k.ends()
}

// A signal that ends the program leaves the terminal as it was, too.
func TestTerminalAndSignal(t *testing.T) {
	t.Parallel()
	k := atTerminal(t, nil, "-file", file(t), "-session", "s1", never)
	k.sees("> ")
	k.types("hello")
	k.sees("hello")
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	k.sees("\r\n")
	k.ends()
}
