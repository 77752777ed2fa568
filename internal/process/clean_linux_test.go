package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

func records(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return names
}

// killedRuntime is a runtime that ran a script, and was killed. It returns the
// script's output, and the program's number.
func killedRuntime(t *testing.T, dir, script string) (out *output, program int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), runtimeDir+"="+dir, runtimeScript+"="+script)
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close() })
	cmd.Stdout = w
	adoptOrphans(t)
	must(t, cmd.Start())
	w.Close()
	out = &output{t, bufio.NewReader(r)}
	pids := map[string]int{}
	for range 2 {
		line, err := out.lines.ReadString('\n')
		must(t, err)
		name, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
		pids[name], err = strconv.Atoi(pid)
		must(t, err)
	}
	child := pids["child"]
	if len(records(t, dir)) != 1 {
		t.Fatalf("the records are %v", records(t, dir))
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	_, err = syscall.Wait4(pids["program"], nil, 0, nil) // see adoptOrphans
	must(t, err)
	if !there(child) {
		t.Fatal("the program's child got the signal, too")
	}
	t.Cleanup(func() { _ = exec.Command("kill", "-KILL", itoa(child)).Run() })
	return out, child
}

// adoptOrphans has this process reap what its children leave running, in place
// of the system's first process, which takes its time.
func adoptOrphans(t *testing.T) {
	t.Helper()
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of prctl(2)
	if _, _, no := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); no != 0 {
		t.Fatal(no)
	}
}

// The next start ends what a runtime left that was killed: the parent-death
// signal ends the program, and the clean-up what it had started.
func TestTheNextStartEndsWhatAKilledRuntimeLeft(t *testing.T) {
	dir := t.TempDir()
	out, child := killedRuntime(t, dir, `(trap '' TERM HUP; sleep 1000; :) & echo child $!; wait`)
	_, log := open(t, dir)
	if there(child) {
		t.Error("it is there")
	}
	if got := records(t, dir); len(got) != 0 {
		t.Errorf("a record is left: %v", got)
	}
	if !strings.Contains(log.String(), "killed") {
		t.Errorf("the log has %q", log)
	}
	out.rest() // all of the group have closed it
}

// A group is left alone of which none has the token: another one may have got
// its number.
func TestAGroupWithoutTheTokenIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	_, child := killedRuntime(t, dir, `env -i sleep 1000 & echo child $!; wait`)
	within(t, "env's clean environment", func() bool {
		name, err := os.ReadFile("/proc/" + itoa(child) + "/comm")
		return err == nil && string(name) == "sleep\n"
	})
	open(t, dir)
	if !there(child) {
		t.Error("it was killed")
	}
}

// Nothing is killed that isn't the process which a record names.
func TestOnlyTheNamedProcessIsKilled(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = attributes(false)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	self, ok := look(cmd.Process.Pid)
	if !ok {
		t.Fatal("/proc doesn't show it")
	}
	boot, namespace, err := here()
	must(t, err)
	same := record{Version: recordVersion, Program: identity{self.pid, self.start},
		Owner: identity{1 << 22, 1}, Boot: boot, Namespace: namespace, Token: "t"}
	for name, c := range map[string]struct {
		change func(*record)
		stays  bool
	}{
		"another start":     {change: func(r *record) { r.Program.Start++ }},
		"another boot":      {change: func(r *record) { r.Boot = "b" }},
		"another namespace": {change: func(r *record) { r.Namespace = "n" }, stays: true},
		"its owner lives": {change: func(r *record) {
			me, _ := look(os.Getpid())
			r.Owner = identity{me.pid, me.start}
		}, stays: true},
		"another version": {change: func(r *record) { r.Version++ }, stays: true},
	} {
		dir := t.TempDir()
		r := same
		c.change(&r)
		_, err := r.write(dir)
		must(t, err)
		open(t, dir)
		if !there(self.pid) {
			t.Fatalf("%s: it was killed", name)
		}
		if stays := len(records(t, dir)) == 1; stays != c.stays {
			t.Errorf("%s: the record stays: %v", name, stays)
		}
	}

	dir := t.TempDir()
	me, _ := look(os.Getpid())
	same.Owner = identity{me.pid, me.start + 1} // its owner's number is another's by now
	_, err = same.write(dir)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "torn.json"), []byte(`{"versi`), 0o600))
	_, log := open(t, dir)
	if there(self.pid) {
		t.Error("the same process was not killed")
	}
	if got := records(t, dir); len(got) != 1 || !strings.Contains(log.String(), "torn.json") {
		t.Errorf("%v; the log has %q", got, log)
	}
}
