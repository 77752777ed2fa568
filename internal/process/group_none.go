//go:build !unix

package process

import (
	"os"
	"syscall"
)

func attributes(bool) *syscall.SysProcAttr { return nil }

// group is the program alone: the system has no groups that could be ended.
type group struct {
	leader   int
	terminal bool
}

func (g group) count() int {
	p, err := os.FindProcess(g.leader)
	if err != nil {
		return 0
	}
	defer p.Release()
	if p.Signal(syscall.Signal(0)) != nil {
		return 0
	}
	return 1
}

func (g group) ask() { g.kill() }

func (g group) kill() {
	if p, err := os.FindProcess(g.leader); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

// exits waits until the program has ended.
func (p *Process) exits() (err error) {
	p.state, err = p.system.Wait()
	return err
}
