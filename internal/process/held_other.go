//go:build !linux

package process

import "os"

// held starts a program. It keeps no record: nothing tells a process from one
// that gets its number later.
func (l *Launcher) held(own *Process, argv []string, attr *os.ProcAttr, _ *record) (err error) {
	own.system, err = os.StartProcess(argv[0], argv, attr)
	return err
}
