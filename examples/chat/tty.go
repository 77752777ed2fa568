package main

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// tty is a terminal, which is raw only while a line is typed: otherwise Ctrl-C
// is a signal as in any program.
type tty struct {
	terminal *term.Terminal
	in, out  *os.File

	mu     sync.Mutex  // guards before
	before *term.State // while it is raw
}

func newTTY(in, out *os.File) *tty {
	return &tty{in: in, out: out, terminal: term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "")}
}

// line returns a line that the person types. Ctrl-C and Ctrl-D are the end of
// all lines: io.EOF.
func (t *tty) line() (string, error) {
	if width, height, err := term.GetSize(int(t.in.Fd())); err == nil {
		_ = t.terminal.SetSize(width, height)
	}
	t.mu.Lock()
	before, err := term.MakeRaw(int(t.in.Fd()))
	t.before = before
	t.mu.Unlock()
	if err != nil {
		return "", err
	}
	defer t.restore()
	return t.terminal.ReadLine()
}

func (t *tty) restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.before == nil {
		return nil
	}
	err := term.Restore(int(t.in.Fd()), t.before)
	t.before = nil
	return err
}
