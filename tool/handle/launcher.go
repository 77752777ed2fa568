package handle

import (
	"log/slog"

	"github.com/fermata-ai/fermata/internal/process"
)

// LauncherOptions configure a Launcher. Nil means the defaults.
type LauncherOptions struct {
	// Dir is a folder of this machine with a record of each program that runs.
	// Should this process be killed, the next launcher with that folder ends
	// what it left. Several processes of one store may have one folder, and
	// should: a body that one of them runs again then doesn't run beside what
	// another one has left, which was killed, or is stopped by a signal. Empty:
	// no records are kept, and on Linux only the program itself ends with this
	// process.
	Dir string
	// Log is told of what could not be ended or cleaned up; nil: slog.Default.
	Log *slog.Logger
}

// Launcher starts the programs of commands, and ends them. A program of it has
// a session and a group of its own, and is ended with all that is in them.
//
// On Linux a program gets SIGKILL when this process dies, and what it started
// is ended by the next launcher, if there is a folder of records. A record is
// stored before its program runs: the program is held by ptrace meanwhile, and
// where the system forbids that, its start fails. On other systems there are
// no records, and programs outlive a process that is killed; where there are no
// process groups, as on Windows, a program is ended alone. What a program puts
// into a session of its own, as daemons are, is out of reach on every system.
type Launcher struct{ inner *process.Launcher }

// OpenLauncher returns a Launcher. It first ends what the records of a process
// that was killed name. Open one at the start of a program, before the runner
// works, and close it after the runner.
func OpenLauncher(o *LauncherOptions) (*Launcher, error) {
	if o == nil {
		o = &LauncherOptions{}
	}
	l, err := process.Open(process.Options{Dir: o.Dir, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &Launcher{l}, nil
}

// Close kills what still runs, and returns when that is gone. It may be called
// again.
func (l *Launcher) Close() error { return l.inner.Close() }
