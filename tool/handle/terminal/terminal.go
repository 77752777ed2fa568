// Package terminal has terminals for commands: a pseudo-terminal of the system,
// and an emulator that draws what a program writes. So editors, pagers and
// other programs that draw a screen can be driven.
//
// It is a module of its own, so that commands with pipes come without it.
package terminal

import (
	"os"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/fermata-ai/fermata/tool/handle"
)

// Where things are: terminal.go (what is opened), display.go (one terminal),
// screen.go (the emulator), outbox.go (what is on its way to the program).

// Options configure a Terminal. Nil means the defaults.
type Options struct {
	// Quiet is how long nothing has to change before a screen is shown; zero:
	// 100 ms. One that goes on changing is shown after ten times that.
	Quiet time.Duration
}

// New returns what opens terminals, for [handle.CommandOptions]. They are those
// of the system, which Windows doesn't have: opening one is an error there.
func New(o *Options) handle.Terminal {
	t := opener{quiet: 100 * time.Millisecond}
	if o != nil && o.Quiet > 0 {
		t.quiet = o.Quiet
	}
	return t
}

type opener struct{ quiet time.Duration }

// Open opens a terminal.
func (o opener) Open(rows, columns int) (handle.Display, error) {
	ours, theirs, err := pty.Open()
	if err != nil {
		return nil, err
	}
	err = pty.Setsize(ours, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
	if err != nil {
		_ = ours.Close()
		_ = theirs.Close()
		return nil, err
	}
	return newDisplay(ours, theirs, rows, columns, o.quiet), nil
}

// display is one open terminal. Three goroutines carry bytes: read, what the
// program writes to the screen; reply, what the emulator answers to the
// program's questions; write, both that and keys to the program. All end when
// the device is closed.
type display struct {
	ours, theirs *os.File
	quiet        time.Duration
	out          *outbox
	running      sync.WaitGroup
	closing      sync.Once
	changed      chan struct{} // has room for one

	mu      sync.Mutex // guards what follows; nothing waits while it is held
	screen  *screen
	since   time.Time // of the first change that isn't shown; zero: none
	last    time.Time // of the last change
	drained bool      // nothing comes any more
}
