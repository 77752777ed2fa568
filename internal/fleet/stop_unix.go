//go:build unix

package fleet

import (
	"os"
	"syscall"
)

// halt keeps a process from running, until resume.
func halt(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// tell has a process tell where all its goroutines are, and end.
func tell(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
