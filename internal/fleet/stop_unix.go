//go:build unix

package fleet

import (
	"os"
	"syscall"
)

// halt keeps a process from running, until resume.
func halt(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
