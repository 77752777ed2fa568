package process

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// sleeping starts a program of a group of its own, and tells who it is.
func sleeping(t *testing.T) identity {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = attributes(false)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	m, ok := look(cmd.Process.Pid)
	if !ok {
		t.Fatal("/proc doesn't show it")
	}
	return identity{m.pid, m.start}
}

// What starts a body again ends an earlier run of it whose runtime is stopped or
// gone. It ends nothing else.
func TestAnEarlierRunOfABodyIsEnded(t *testing.T) {
	owner := sleeping(t)
	must(t, syscall.Kill(owner.Pid, syscall.SIGSTOP))
	within(t, "the owner stops", func() bool {
		m, _ := look(owner.Pid)
		return m.stopped
	})
	me, _ := look(os.Getpid())
	boot, namespace, err := here()
	must(t, err)
	later := record{Version: recordVersion, Token: "b", Program: identity{me.pid, me.start},
		Owner: identity{me.pid, me.start}, Boot: boot, Namespace: namespace, Body: "s/c", Fence: 7}
	for name, c := range map[string]struct {
		change func(*record)
		ends   bool
	}{
		"its owner is stopped": {func(*record) {}, true},
		"its owner is gone":    {func(r *record) { r.Owner.Start++ }, true},
		"its owner works":      {func(r *record) { r.Owner = later.Owner }, false},
		"the same drive":       {func(r *record) { r.Fence = 7 }, false},
		"a later drive":        {func(r *record) { r.Fence = 8 }, false},
		"another body":         {func(r *record) { r.Body = "s/d" }, false},
		"no body":              {func(r *record) { r.Body = "" }, false},
		"another start":        {func(r *record) { r.Program.Start++ }, false},
		"another boot":         {func(r *record) { r.Boot = "b" }, false},
		"another namespace":    {func(r *record) { r.Namespace = "n" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := later
			r.Token, r.Program, r.Owner, r.Fence = "a", sleeping(t), owner, 6
			c.change(&r)
			_, err := r.write(dir)
			must(t, err)
			must(t, later.overtake(dir, slog.New(slog.DiscardHandler)))
			if ends := !there(r.Program.Pid); ends != c.ends {
				t.Errorf("it has ended: %v", ends)
			}
			if got := records(t, dir); len(got) != 1 {
				t.Errorf("the records are %v", got)
			}
		})
	}
}

// Nothing starts beside a run of which the record can't be read.
func TestNothingStartsBesideAnUnknownRun(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, nameOf("s/c")+"1-t.json"), []byte(`{"versi`), 0o600))
	p := shell("exit 0", os.Stdout)
	p.Body, p.Fence = "s/c", 2
	if _, err := l.Start(background(), p); err == nil {
		t.Error("it was started")
	}
	if got := records(t, dir); len(got) != 1 {
		t.Errorf("the records are %v", got)
	}
	p.Body = "s/d"
	own, err := l.Start(background(), p)
	must(t, err)
	<-own.Done()
}
