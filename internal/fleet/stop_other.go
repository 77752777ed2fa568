//go:build !unix

package fleet

import (
	"errors"
	"os"
)

// halt and resume are for systems that can stop a process.
func halt(*os.Process) error { return errors.New("fleet: no process can be stopped on this system") }

func tell(*os.Process) error { return nil }

func resume(*os.Process) error { return nil }
