package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// Process is this program in another role.
type Process struct {
	role  string
	cmd   *exec.Cmd
	stdin io.Closer // nil if it shares ours
	ended bool
}

// StartAtPrompt starts this program in a role that talks to the person at the terminal.
func StartAtPrompt(ctx context.Context, role string, args ...string) *Process {
	p := newProcess(ctx, role, args)
	p.cmd.Stdin = os.Stdin
	p.start()
	return p
}

// Start starts this program in a role. Its input ends when it should end, or its parent is gone: see Serve. The listener, if
// there is one, is the process's own from now on.
func Start(ctx context.Context, l *net.TCPListener, role string, args ...string) *Process {
	p := newProcess(ctx, role, args)
	p.stdin = Must(p.cmd.StdinPipe())
	if l != nil {
		defer l.Close()
		f := Must(l.File())
		defer f.Close()
		p.cmd.ExtraFiles = []*os.File{f}
	}
	p.start()
	return p
}

func newProcess(ctx context.Context, role string, args []string) *Process {
	p := &Process{role: role, cmd: exec.CommandContext(ctx, Must(os.Executable()), append([]string{role}, args...)...)}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = os.Stdout, os.Stderr, 5*time.Second
	return p
}

func (p *Process) start() {
	Check(p.cmd.Start())
	Line("started", p.role, "process %d", p.cmd.Process.Pid)
}

// Wait waits for the process to end.
func (p *Process) Wait() {
	if err := p.wait(); err != nil {
		Check(fmt.Errorf("process %s: %w", p.role, err))
	}
}

func (p *Process) wait() error {
	err := p.cmd.Wait()
	p.ended = true
	Line("exited", p.role, "process %d: %v", p.cmd.Process.Pid, p.cmd.ProcessState)
	return err
}

// End tells the process to end, and waits for it.
func (p *Process) End() {
	p.stdin.Close()
	p.Wait()
}

// Kill ends the process if it has not ended. It is for a defer.
func (p *Process) Kill() {
	if !p.ended {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
	}
}

// Listen reserves an address for a process that is started later. Who connects before that is kept waiting, not refused.
func Listen() *net.TCPListener {
	return Must(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
}

// Serve serves HTTP at the address that the process was given, until done is closed, the parent tells it to end, or the parent is
// gone; and then until the requests that have come are answered. After is called when a request was handled, before its sender
// has the answer.
func Serve(ctx context.Context, h http.Handler, done <-chan struct{}, after func()) {
	const inherited = 3 // the first file after standard error
	l := Must(net.FileListener(os.NewFile(inherited, "listener")))
	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default: // one is enough
		}
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if err := try(after); err != nil {
			fail(err)
		}
	})
	go func() { fail(server.Serve(l)) }()
	select {
	case err := <-failed:
		Check(err)
	case <-ctx.Done():
		Check(ctx.Err())
	case <-inputEnds():
	case <-done:
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	Check(server.Shutdown(ctx))
}

// inputEnds closes the channel when the parent closes our input, or is gone.
func inputEnds() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	return ended
}
