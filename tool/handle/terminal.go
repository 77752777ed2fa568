package handle

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/process"
)

// Terminal opens terminals for commands. Package tool/handle/terminal, a module
// of its own, has one.
type Terminal interface {
	Open(rows, columns int) (Display, error)
}

// Display is one open terminal. Next and Type may be called at the same time,
// and Close at any.
type Display interface {
	// Program returns the program's side of it, a terminal device. The caller
	// closes that once the program was started.
	Program() *os.File
	// Next waits until something has changed on the screen and then nothing for
	// a moment, and returns it. The error is io.EOF once nothing can change any
	// more and the last screen was returned, or the context's.
	Next(context.Context) (text string, screen Screen, err error)
	// Type gives the program keys that ParseKey has returned. It doesn't wait
	// until the program reads them.
	Type([]Key) error
	Close() error
}

// The size of a terminal where CommandOptions say nothing, and the greatest.
const (
	DefaultRows    = 24
	DefaultColumns = 80
	maxSide        = 1000
)

// screened is the body of a command with a terminal.
type screened struct {
	process *process.Process
	display Display
	drained chan struct{} // closed when the last screen was returned
	last    string        // of Next, which is called by one goroutine, and before Result
}

func startScreened(ctx context.Context, l *process.Launcher, p process.Program,
	o CommandOptions) (*screened, error) {
	display, err := o.Terminal.Open(o.Rows, o.Columns)
	if err != nil {
		return nil, err
	}
	device := display.Program()
	defer device.Close()
	p.Files, p.Terminal = [3]*os.File{device, device, device}, true
	if p.Env == nil {
		p.Env = os.Environ()
	}
	p.Env = append(slices.Clone(p.Env), "TERM=xterm-256color") // the last one counts
	s := &screened{display: display, drained: make(chan struct{})}
	if s.process, err = l.Start(ctx, p); err != nil {
		_ = display.Close()
		return nil, err
	}
	go s.finish()
	return s, nil
}

// finish closes the terminal when the program's session is gone and its last
// screen was returned. Another process may hold it open: that isn't awaited for
// long.
func (s *screened) finish() {
	<-s.process.Done()
	bound := time.NewTimer(drainBound)
	defer bound.Stop()
	select {
	case <-s.drained:
	case <-bound.C:
	}
	_ = s.display.Close()
}

// Next returns the screen when it has changed.
func (s *screened) Next(ctx context.Context) (Update, error) {
	text, screen, err := s.display.Next(ctx)
	if errors.Is(err, io.EOF) {
		s.drain()
		select {
		case <-s.process.Done():
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return Update{}, err
	}
	s.last = text
	return Update{Content: text, Screen: &screen}, nil
}

func (s *screened) drain() {
	select {
	case <-s.drained: // before
	default:
		close(s.drained)
	}
}

// Input presses keys. A terminal has no end of input: a key is that, if any.
func (s *screened) Input(_ context.Context, in Input) error {
	if in.Value == nil {
		return nil
	}
	keys, err := readTyped(in.Value)
	if err != nil {
		return err
	}
	return s.display.Type(keys)
}

// Stop ends the program and its session.
func (s *screened) Stop(grace time.Duration) { s.process.Stop(grace) }

// Result returns how the program ended, with the last screen.
func (s *screened) Result() (Ended, error) {
	state, err := s.process.State()
	if err != nil {
		return Ended{}, endError(err)
	}
	return exited(state, s.last, 0)
}
