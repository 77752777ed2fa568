//go:build unix && !linux

package process

import (
	"syscall"
)

func attributes(terminal bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: terminal}
}

// group is a program's process group: the program, and what it started, but for
// what made a group of its own.
type group struct {
	leader   int
	terminal bool
}

// count returns 1 while there is any.
func (g group) count() int {
	if syscall.Kill(-g.leader, 0) == syscall.ESRCH {
		return 0
	}
	return 1
}

func (g group) ask() {
	if g.terminal {
		_ = syscall.Kill(-g.leader, syscall.SIGHUP)
	}
	_ = syscall.Kill(-g.leader, syscall.SIGTERM)
	_ = syscall.Kill(-g.leader, syscall.SIGCONT)
}

func (g group) kill() { _ = syscall.Kill(-g.leader, syscall.SIGKILL) }

// exits waits until the program has ended, and reaps it.
func (p *Process) exits() (err error) {
	p.state, err = p.system.Wait()
	return err
}
