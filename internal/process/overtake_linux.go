package process

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// overtake ends the other programs of the record's body whose runtimes are gone,
// or stopped, by a debugger, say: a runtime that runs nothing can't end them
// itself. One that works does, with its lease. The records are left to whom they
// belong. The caller has stored its own record by now, and its program has not
// run.
func (r *record) overtake(dir string, log *slog.Logger) error {
	if r.Body == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(dir, nameOf(r.Body)+"*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		other, err := readRecord(name)
		switch {
		case os.IsNotExist(err): // it has just ended
		case err != nil:
			return fmt.Errorf("a record of another run can't be read: %w", err)
		case !r.overtakes(other):
		case !other.end(log, "is gone, or stopped"):
			return fmt.Errorf("another run of it, process %d, does not end", other.Program.Pid)
		}
	}
	return nil
}

// overtakes reports whether the other record is of an earlier run of the same
// body, something of which is there, and whose runtime can't end it.
func (r *record) overtakes(other *record) bool {
	if other.Body != r.Body || other.Fence >= r.Fence ||
		other.Boot != r.Boot || other.Namespace != r.Namespace {
		return false
	}
	owner, ok := look(other.Owner.Pid)
	works := ok && !owner.gone && owner.start == other.Owner.Start && !owner.stopped
	return !works && group{leader: other.Program.Pid}.count() > 0
}
