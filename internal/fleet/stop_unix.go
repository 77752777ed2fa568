//go:build unix

package fleet

import (
	"os"
	"syscall"
)

// halt keeps a process from running, until resume.
func halt(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// dump has a process show where all its goroutines are, and end.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
