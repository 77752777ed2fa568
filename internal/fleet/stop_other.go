//go:build !unix

package fleet

import (
	"errors"
	"os"
)

var errNoSignals = errors.New("fleet: this system has no signals")

// halt and resume are for systems that can stop a process, and dump for those
// that can ask one where it is.
func halt(*os.Process) error { return errNoSignals }

func dump(*os.Process) error { return errNoSignals }

func resume(*os.Process) error { return nil }
