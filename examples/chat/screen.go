package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen is where the person is: a terminal, with a prompt and a history, or a
// pair of pipes. Any goroutine may write text to it, also while a line is
// typed. A line comes when one was asked for: a goroutine for each line reads
// it, sends it to Lines, and ends. Only that goroutine reads the input, and
// sends to lines or closes it.
type screen struct {
	Lines <-chan string // closed when there will be no more

	lines chan string
	read  func() (string, error)
	out   io.Writer
	tty   *tty // nil: pipes

	// mu guards asked, held, and the writing of out. It is not held while a
	// line is read.
	mu    sync.Mutex
	asked bool
	held  []byte // the beginning of an output line, while a line is typed below it
}

func newScreen(in, out *os.File) *screen {
	s := &screen{lines: make(chan string), out: out}
	s.Lines = s.lines
	if term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		s.tty = newTTY(in, out)
		s.read, s.out = s.tty.line, s.tty.terminal
		return s
	}
	pipe := bufio.NewReader(in)
	s.read = func() (string, error) {
		line, err := pipe.ReadString('\n')
		if line != "" {
			err = nil // the last line may lack its end
		}
		return strings.TrimRight(line, "\r\n"), err
	}
	return s
}

// Ask asks for a line, if none is being typed, and shows the prompt.
func (s *screen) Ask(prompt string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tty != nil {
		s.tty.terminal.SetPrompt(prompt)
	}
	if s.asked {
		_, _ = s.out.Write(nil) // draws the prompt, if this is a terminal
		return
	}
	s.asked = true
	go func() {
		line, err := s.read()
		if err != nil {
			close(s.lines)
			return
		}
		s.lines <- line
	}()
}

// Took is called when a line has come.
func (s *screen) Took() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = false
}

// Write shows text. While a line is typed, a line of text appears above it once
// it is whole.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := text
	if s.tty != nil && s.asked {
		all = append(s.held, text...)
		end := bytes.LastIndexByte(all, '\n') + 1
		s.held = bytes.Clone(all[end:])
		if all = all[:end]; len(all) == 0 {
			return len(text), nil
		}
	} else if len(s.held) > 0 {
		all, s.held = append(s.held, text...), nil
	}
	if _, err := s.out.Write(all); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Leave gives the terminal back as it was. The screen takes no more lines, and
// still shows text.
func (s *screen) Leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tty == nil || !s.asked {
		return nil
	}
	s.asked, s.out = false, s.tty.out
	err := s.tty.restore()
	_, _ = s.out.Write([]byte{'\n'}) // below what was typed
	return err
}
