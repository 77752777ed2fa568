//go:build unix

package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// menu draws at places of the screen, and reads keys one by one.
const menu = `stty -icanon -echo
	printf '\033[?1049h\033[2J\033[5;10Hmenu\033[7;1H'
	up=$(printf '\033[A')
	while :; do
		key=$(dd bs=3 count=1 2>/dev/null)
		case "$key" in
		"$up") printf '\033[6;3Hwent up';;
		x) printf '\033[6;3H\033[Kpressed x';;
		q) printf '\033[?1049l'; echo bye; exit 4;;
		esac
	done`

// A program that draws is shown as its screen, and reads keys.
func TestAProgramThatDraws(t *testing.T) {
	s := begin(t, "sh", "-c", menu)
	s.shows("menu")
	if got := s.last; got.Content != "\n\n\n\n         menu" || got.Screen == nil ||
		got.Screen.Rows != 24 || got.Screen.Columns != 80 ||
		got.Screen.Row != 7 || got.Screen.Column != 1 {
		t.Errorf("%q, %+v", got.Content, got.Screen)
	}
	s.presses("up")
	s.shows("menu\n  went up")
	s.presses("x")
	s.shows("pressed x")
	if strings.Contains(s.last.Content, "went up") {
		t.Errorf("the screen is\n%s", s.last.Content)
	}
	s.presses("q")
	if got := s.exits(); got.ExitCode != 4 || got.Output != "bye" {
		t.Errorf("%+v", got)
	}
}

// The keys of a terminal do what they do to a person's program.
func TestControlKeys(t *testing.T) {
	s := begin(t, "sh", "-c", `stty size; trap 'echo stopped' INT; cat; echo; echo end of input; cat`)
	s.shows("24 80")
	s.presses("text:hello", "enter")
	s.shows("hello\nhello")
	s.presses("ctrl+c")
	s.shows("stopped")
	s.presses("ctrl+d")
	if got := s.exits(); got.ExitCode != 0 || !strings.HasSuffix(got.Output, "end of input") {
		t.Errorf("%+v", got)
	}
}

// What a program asks of its terminal is answered.
func TestATerminalAnswers(t *testing.T) {
	s := begin(t, "sh", "-c",
		`stty -icanon -echo; printf '\033[3;7H\033[6n'; dd bs=6 count=1 2>/dev/null | od -c | head -1`)
	if got := s.exits(); !strings.Contains(got.Output, "033   [   3   ;   7   R") {
		t.Errorf("%+v", got)
	}
}

// Output without a pause is shown all the same.
func TestConstantOutputIsShown(t *testing.T) {
	s := begin(t, "sh", "-c", `while :; do echo again; done`)
	s.shows("again\nagain")
}

// An interactive shell heeds no SIGTERM; it ends with what it started, in
// whatever groups.
func TestAnInteractiveShellEnds(t *testing.T) {
	s := begin(t, "env", "PS1=ready>", "ENV=", "sh", "-i")
	s.shows("ready>")
	s.presses("text:(trap '' HUP TERM; sleep 1000) & echo started=$(($!))", "enter")
	s.shows("\nstarted=")
	_, after, _ := strings.Cut(s.last.Content, "\nstarted=")
	number, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(number)
	must(t, err)
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Fatalf("it isn't in a group of its own: %d, %v", group, err)
	}
	s.cancel()
	<-s.ended
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	bound := time.After(20 * time.Second)
	for syscall.Kill(pid, 0) == nil { // until the system has reaped it
		select {
		case <-look.C:
		case <-bound:
			t.Fatal("what it started is there")
		}
	}
}

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not there", name)
	}
	return path
}

// A pager can be driven.
func TestLess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "line %d of many\n", i+1)
	}
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	s := begin(t, program(t, "less"), file)
	s.shows("line 23 of many")
	if strings.Contains(s.last.Content, "line 24 ") {
		t.Errorf("the screen is\n%s", s.last.Content)
	}
	s.presses("pagedown")
	s.shows("line 46 of many")
	s.presses("text:/line 150", "enter")
	s.shows("line 172 of many")
	s.presses("home", "g", "down")
	s.shows("line 24 of many")
	s.presses("q")
	if got := s.exits(); got.ExitCode != 0 {
		t.Errorf("%+v", got)
	}
}

// An editor can be driven.
func TestVi(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(file, []byte("one\ntwo\n"), 0o600))
	s := begin(t, program(t, "vi"), file)
	s.shows("two")
	s.presses("down", "A", "text: and a half\nthree", "esc", "text::wq", "enter")
	s.exits()
	got, err := os.ReadFile(file)
	must(t, err)
	if string(got) != "one\ntwo and a half\nthree\n" {
		t.Errorf("%q; the screen was\n%s", got, s.exit.Output)
	}
}
