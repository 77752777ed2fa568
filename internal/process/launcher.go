// Package process starts programs that end when they have to: each with all
// that it has started, by a stop, and also where the program that started them
// was killed.
//
// It is for bodies of calls. It knows nothing of calls, and nothing of what the
// programs read and write.
//
// On Linux all of what the comments promise holds. Other Unix systems have
// neither a parent-death signal nor /proc: there a program is stopped with its
// group, and outlives a runtime that is killed. On systems without process
// groups the program alone is ended.
package process

// Where things are: launcher.go (starting and closing), process.go (one
// program, and its end), record.go and clean.go (what survives a kill),
// overtake.go (what another runtime runs); of the system: held_*.go (a start that
// waits for its record), group_*.go (groups).

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/xid"
)

// Options configure a Launcher.
type Options struct {
	// Dir has a record of each program that runs. Empty: none are kept.
	Dir string
	// Log is told of what could not be ended or cleaned up; nil: slog.Default.
	Log *slog.Logger
}

// Launcher starts programs. All come from one thread, which lives until Close:
// Linux sends the parent-death signal when the thread ends that started a
// program, and Go ends threads as it likes.
type Launcher struct {
	dir string
	log *slog.Logger

	stored func(pid int) // a test's, before a program with a record runs; nil: none

	starts chan start    // to the thread
	closed chan struct{} // closed by Close, before it waits
	ended  chan struct{} // closed when the thread is gone

	mu      sync.Mutex // guards what follows
	closing bool
	running []*Process
}

// start is a program to start, and where to send what comes of it.
type start struct {
	program Program
	done    chan<- started
}

type started struct {
	process *Process
	err     error
}

// ErrClosed is the error of a Start after Close.
var ErrClosed = errors.New("process: the launcher is closed")

// Open returns a Launcher. It first ends what records in its folder name, of
// runtimes that were killed.
func Open(o Options) (*Launcher, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("process: the folder of records: %w", err)
		}
		if err := clean(o.Dir, o.Log); err != nil {
			return nil, fmt.Errorf("process: the folder of records: %w", err)
		}
	}
	l := &Launcher{dir: o.Dir, log: o.Log, starts: make(chan start),
		closed: make(chan struct{}), ended: make(chan struct{})}
	go l.thread()
	return l, nil
}

// thread starts what it is told to. It never unlocks its thread, which
// therefore ends with it.
func (l *Launcher) thread() {
	defer close(l.ended)
	runtime.LockOSThread()
	for {
		select {
		case s := <-l.starts:
			p, err := l.launch(s.program)
			s.done <- started{p, err}
		case <-l.closed:
			l.endAll()
			return
		}
	}
}

// Program is what to start.
type Program struct {
	Path string   // of the file; it is not looked for
	Args []string // without the name of the program
	Dir  string   // empty: that of this program
	Env  []string // nil: that of this program; of one name the last one counts
	// Files are the program's standard input, output and error.
	Files [3]*os.File
	// Terminal: the standard input is a terminal, which is to control the
	// program.
	Terminal bool
	// Body names what the program is a run of; empty: nothing. Where there are
	// records, Start first ends other runs of it, of lesser fences, whose
	// runtimes are gone or stopped, and so can't end them.
	Body  string
	Fence int64
}

// Start starts a program. It runs in a session and a group of its own. Its
// files are the caller's to close, when Start has returned.
func (l *Launcher) Start(ctx context.Context, p Program) (*Process, error) {
	done := make(chan started, 1)
	select {
	case l.starts <- start{p, done}:
	case <-l.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s := <-done // what was begun isn't left behind
	return s.process, s.err
}

// launch starts a program, in the thread. Its record is stored before it runs.
func (l *Launcher) launch(p Program) (*Process, error) {
	token := xid.New().String()
	if p.Env == nil {
		p.Env = os.Environ()
	}
	env := slices.Clone(p.Env)
	if p.Dir != "" {
		env = append(env, "PWD="+p.Dir)
	}
	env = append(env, tokenName+"="+token)
	attr := &os.ProcAttr{Dir: p.Dir, Env: lastOnes(env), Files: p.Files[:], Sys: attributes(p.Terminal)}
	argv := append([]string{p.Path}, p.Args...)
	own := &Process{terminal: p.Terminal, log: l.log, done: make(chan struct{}),
		stops: make(chan time.Duration), drop: l.drop}
	if l.dir == "" {
		begun, err := os.StartProcess(p.Path, argv, attr)
		if err != nil {
			return nil, err
		}
		own.system = begun
	} else if err := l.held(own, argv, attr, newRecord(p, token)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.running = append(l.running, own)
	l.mu.Unlock()
	go own.watch()
	return own, nil
}

// lastOnes returns an environment with each variable once. The last one counts,
// as with os/exec; programs would take the first.
func lastOnes(env []string) (once []string) {
	seen := map[string]bool{}
	for _, variable := range slices.Backward(env) {
		name, _, _ := strings.Cut(variable, "=")
		if name != "" && seen[name] { // Windows has some without a name
			continue
		}
		seen[name] = true
		once = append(once, variable)
	}
	slices.Reverse(once)
	return once
}

func (l *Launcher) drop(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = slices.DeleteFunc(l.running, func(other *Process) bool { return other == p })
}

// Close kills what still runs, and returns when it is gone and the thread has
// ended. It may be called again.
func (l *Launcher) Close() error {
	l.mu.Lock()
	if !l.closing {
		l.closing = true
		close(l.closed)
	}
	l.mu.Unlock()
	<-l.ended
	return nil
}

func (l *Launcher) endAll() {
	l.mu.Lock()
	running := slices.Clone(l.running)
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range running {
		all.Go(func() { p.Stop(0) })
	}
	all.Wait()
}
