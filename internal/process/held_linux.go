package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// attributes are those of each program: a session and a group of its own, the
// terminal if it has one, and the signal that it gets when the thread ends
// that started it.
func attributes(terminal bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: terminal, Pdeathsig: syscall.SIGKILL}
}

// held starts a program, holds it before its first instruction, stores its
// record, and lets it go. The program is held as a debugger holds one. So the
// errors of its start are the system's own, and nothing stands between the two
// that would change its environment, as a shell does which waits for a word.
// What is held is killed if this thread ends.
//
// Its caller is the locked thread: the kernel takes that for the debugger, and
// no other.
func (l *Launcher) held(own *Process, argv []string, attr *os.ProcAttr, r *record) error {
	attr.Sys.Ptrace = true
	begun, err := os.StartProcess(argv[0], argv, attr)
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%v: perhaps the system doesn't let a process be held until its record is "+
			"stored (it may be traced already, or ptrace be forbidden); without a folder of "+
			"records it need not be", err)
	}
	if err != nil {
		return err
	}
	own.system = begun
	err = awaitHeld(begun.Pid)
	if err == nil {
		r.Program.Pid = begun.Pid
		own.record, err = r.writeTo(l.dir)
	}
	if err == nil {
		err = r.overtake(l.dir, l.log)
	}
	if err == nil && l.stored != nil {
		l.stored(begun.Pid)
	}
	if err == nil {
		err = syscall.PtraceDetach(begun.Pid)
	}
	if err == nil {
		return nil
	}
	_ = begun.Kill()
	_, _ = begun.Wait()
	if own.record != "" {
		_ = os.Remove(own.record)
	}
	return fmt.Errorf("process: %s was not let run: %w", argv[0], err)
}

// awaitHeld waits until a program that was just started is held. A signal that
// comes before is passed on.
func awaitHeld(pid int) error {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return fmt.Errorf("it can't be waited for: %w", err)
		case !status.Stopped():
			return errors.New("it ended before it was held")
		case status.StopSignal() == syscall.SIGTRAP:
			return nil
		default:
			if err := syscall.PtraceCont(pid, int(status.StopSignal())); err != nil {
				return fmt.Errorf("it can't be continued: %w", err)
			}
		}
	}
}
