package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func background() context.Context { return context.Background() }

// there reports whether a process hasn't ended.
func there(pid int) bool {
	m, ok := look(pid)
	return ok && !m.gone
}

// A program that ends is told as it ended.
func TestAProgramsEnd(t *testing.T) {
	l, _ := open(t, t.TempDir())
	for script, want := range map[string]string{
		"exit 0": "exit status 0", "exit 7": "exit status 7", "kill -KILL $$": "signal: killed",
	} {
		p, _ := run(t, l, script)
		state, err := p.State()
		must(t, err)
		if state.String() != want {
			t.Errorf("%s: %s, not %s", script, state, want)
		}
	}
}

// Stop asks first: a program that heeds that ends in its own way.
func TestStopAsksFirst(t *testing.T) {
	l, _ := open(t, "")
	p, out := run(t, l, `trap 'echo bye; exit 3' TERM; echo $$; while :; do sleep 0.01; done`)
	out.pid()
	p.Stop(time.Minute)
	state, err := p.State()
	must(t, err)
	if got := out.rest(); got != "bye\n" || state.ExitCode() != 3 {
		t.Errorf("%q, %v", got, state)
	}
}

// Stop kills what doesn't heed it, and the whole group: in another process
// group of the same session, and where the first program is gone, too.
func TestStopEndsTheWholeGroup(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for name, script := range map[string]string{
		"deaf": `trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID'); sleep 1000) &
			echo $$; sleep 1000`,
		"another group": ownGroup + `=1 ` + self + ` & echo $$; wait`,
		"held":          `sleep 1000 & echo $!; kill -STOP $!; echo $$; kill -STOP $$`,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := open(t, t.TempDir())
			p, out := run(t, l, script)
			one, other := out.pid(), out.pid()
			if !there(one) || !there(other) {
				t.Fatal("they ended by themselves")
			}
			p.Stop(20 * time.Millisecond)
			if there(one) || there(other) {
				t.Error("one of them is there after Stop")
			}
			out.rest() // fails only if the test's time is over: all have closed it
		})
	}
}

// A second Stop doesn't wait for the grace of the first.
func TestALaterStopIsSooner(t *testing.T) {
	l, _ := open(t, "")
	p, out := run(t, l, `trap 'echo heard' TERM; echo $$; while :; do sleep 0.01; done`)
	out.pid()
	first := make(chan struct{})
	go func() { defer close(first); p.Stop(time.Hour) }()
	if heard, err := out.lines.ReadString('\n'); err != nil || heard != "heard\n" {
		t.Fatal(heard, err)
	}
	p.Stop(0)
	<-first
	if state, _ := p.State(); state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v", state)
	}
}

// What a program leaves running ends with it.
func TestWhatAProgramLeavesRunningIsEnded(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	p, out := run(t, l, `sleep 1000 >/dev/null 2>&1 & echo $!`)
	child := out.pid()
	state, err := p.State()
	must(t, err)
	if there(child) || state.ExitCode() != 0 {
		t.Errorf("it is there: %v; %v", there(child), state)
	}
	if names := records(t, dir); len(names) != 0 {
		t.Errorf("a record is left: %v", names)
	}
}

// Close kills what runs, and starts nothing any more.
func TestClose(t *testing.T) {
	l, _ := open(t, t.TempDir())
	p, out := run(t, l, `trap '' TERM; echo $$; sleep 1000`)
	pid := out.pid()
	must(t, l.Close())
	if there(pid) {
		t.Error("it is there")
	}
	if _, err := p.State(); err != nil {
		t.Error(err)
	}
	if _, err := l.Start(t.Context(), shell("true", nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A program whose record can't be stored isn't let run.
func TestARecordPrecedesTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	l, _ := open(t, dir)
	l.stored = func(pid int) {
		stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
		must(t, err)
		if !strings.Contains(string(stat), ") t ") || len(records(t, dir)) != 1 {
			t.Errorf("it isn't held with its record stored: %s, %v", stat, records(t, dir))
		}
	}
	p, out := run(t, l, "ls "+dir)
	l.stored = nil
	if got := out.rest(); !strings.HasPrefix(got, itoa(p.Pid())+"-") {
		t.Errorf("the program sees %q, and not its record", got)
	}
	_, err := p.State()
	must(t, err)

	must(t, os.Remove(dir))
	mark := filepath.Join(t.TempDir(), "mark")
	if _, err := l.Start(t.Context(), shell("touch "+mark, nil)); err == nil {
		t.Error("it was started")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}

// Go ends a thread when a goroutine that has locked it ends. A program isn't
// started by a thread that others may get.
func TestProgramsOutliveTheThreadsOfOthers(t *testing.T) {
	l, _ := open(t, "")
	p, out := run(t, l, `trap 'echo here' USR1; echo $$; while :; do sleep 0.01; done`)
	out.pid()
	for range 20 {
		var locked sync.WaitGroup
		for range 20 {
			locked.Go(runtime.LockOSThread)
		}
		locked.Wait()
	}
	must(t, syscall.Kill(p.Pid(), syscall.SIGUSR1))
	if got, err := out.lines.ReadString('\n'); got != "here\n" {
		t.Errorf("%q, %v", got, err)
	}
	p.Stop(0)
}

// Of variables with one name the last one counts.
func TestTheLastVariableCounts(t *testing.T) {
	got := lastOnes([]string{"A=1", "B=2", "A=3", "=C:=x", "=D:=y", "TERM=dumb", "TERM=xterm"})
	if want := "B=2 A=3 =C:=x =D:=y TERM=xterm"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

// The errors of a start are the system's.
func TestErrorsOfAStart(t *testing.T) {
	l, _ := open(t, t.TempDir())
	for path, want := range map[string]error{
		"/nowhere/at/all": os.ErrNotExist, "/etc/passwd": os.ErrPermission, "/tmp": os.ErrPermission,
	} {
		if _, err := l.Start(t.Context(), Program{Path: path}); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
