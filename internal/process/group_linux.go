package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// group is a program's session: the program, and all that it started, but for
// what made a session of its own, as daemons do.
type group struct {
	leader   int
	terminal bool
}

// member is a process, as /proc has it.
type member struct {
	pid, group, session int
	start               uint64
	gone                bool // it has ended, and waits to be reaped
	stopped             bool // by a signal, or by a debugger
}

// members returns those that haven't ended. No other process can be among
// them while one of the group is there, or while its leader isn't reaped: the
// kernel gives the number of a session to no other process.
func (g group) members() (all []member) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		m, ok := look(pid)
		if ok && !m.gone && (m.group == g.leader || m.session == g.leader) {
			all = append(all, m)
		}
	}
	return all
}

// look reads what /proc has of a process (proc_pid_stat(5)).
func look(pid int) (m member, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return m, false
	}
	// The name, in parentheses, may have spaces and parentheses itself.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return m, false
	}
	m.pid = pid
	m.gone = fields[0] == "Z" || fields[0] == "X" || fields[0] == "x"
	m.stopped = fields[0] == "T" || fields[0] == "t"
	m.group, _ = strconv.Atoi(fields[2])
	m.session, _ = strconv.Atoi(fields[3])
	m.start, err = strconv.ParseUint(fields[19], 10, 64)
	return m, err == nil
}

func (g group) count() int { return len(g.members()) }

// ask sends the signal that asks to end. An interactive shell heeds another
// one, that its terminal is gone. A process that is stopped heeds none before
// it goes on.
func (g group) ask() {
	if g.terminal {
		g.signal(syscall.SIGHUP)
	}
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

func (g group) kill() { g.signal(syscall.SIGKILL) }

// signal sends a signal to the leader's group at once, and to other groups of
// its session one by one.
func (g group) signal(s syscall.Signal) {
	_ = syscall.Kill(-g.leader, s)
	for _, m := range g.members() {
		if m.group != g.leader {
			_ = syscall.Kill(m.pid, s)
		}
	}
}

// exits waits until the program has ended, and doesn't reap it.
func (p *Process) exits() error {
	const byPid = 1 // P_PID of waitid(2)
	var info [128]byte
	for {
		_, _, no := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(p.Pid()),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		switch no {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return fmt.Errorf("process: %d can't be waited for: %w", p.Pid(), no)
		}
	}
}
