//go:build unix

package handle

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// run1 is what the commands of tests are given.
type run1 struct {
	Script string `json:"script"`
}

func launcher(t *testing.T) *Launcher {
	t.Helper()
	l, err := OpenLauncher(&LauncherOptions{Dir: filepath.Join(t.TempDir(), "records")})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// shell returns the tool of a command that runs scripts of sh.
func shell(t *testing.T, s tool.Spec, o *CommandOptions) tool.Tool {
	t.Helper()
	s.Name = "sh"
	c, err := NewCommand(launcher(t), s, func(_ context.Context, in run1) (Program, error) {
		return Program{Path: "sh", Args: []string{"-c", in.Script}}, nil
	}, o)
	must(t, err)
	return liveTool(t, c, &LiveOptions{Grace: func(error) time.Duration { return 20 * time.Millisecond }})
}

func scripted(h *fakeHost, script string) tool.Call {
	args, err := json.Marshal(run1{script})
	if err != nil {
		panic(err)
	}
	c := tool.Call{ID: "c", Tool: "sh", Arguments: args}
	if h != nil {
		c.Host = h
	}
	return c
}

func exitOf(t *testing.T, e ending) (exit Exit) {
	t.Helper()
	must(t, e.err)
	must(t, json.Unmarshal(e.execution.Output, &exit))
	return exit
}

// What a command writes is shown while it runs; what it is given it reads; its
// exit code and its output are the result.
func TestACommandIsShownAndFed(t *testing.T) {
	h := newHost()
	end := execute(t, t.Context(), shell(t, tool.Spec{}, nil),
		scripted(h, `echo name?; read name; echo "hello $name" >&2; cat; exit 3`))
	h.shows(t, "name?\n")
	h.type1(t, `{"text":"ada\n"}`)
	h.shows(t, "hello ada\n")
	h.type1(t, `{"text":"the rest","end":true}`)
	got, want := exitOf(t, end()), Exit{ExitCode: 3, Output: "name?\nhello ada\nthe rest"}
	if got != want || h.shown != want.Output {
		t.Errorf("%+v, shown %q", got, h.shown)
	}
}

// A call without a Host that gives input gets the end of the input.
func TestACommandWithoutInputDoesNotHang(t *testing.T) {
	e := execute(t, t.Context(), shell(t, tool.Spec{}, nil), scripted(nil, `cat; echo over`))()
	if got := exitOf(t, e); got != (Exit{Output: "over\n"}) {
		t.Errorf("%+v", got)
	}
}

func TestASignalIsTold(t *testing.T) {
	e := execute(t, t.Context(), shell(t, tool.Spec{}, nil), scripted(nil, `kill -KILL $$`))()
	if got := exitOf(t, e); got.ExitCode != -1 || got.Signal != "killed" {
		t.Errorf("%+v", got)
	}
}

// Of much output the head and the tail are kept, and how much is left out.
func TestMuchOutputIsBounded(t *testing.T) {
	l := shell(t, tool.Spec{}, &CommandOptions{MaxOutput: 1024})
	e := execute(t, t.Context(), l,
		scripted(nil, `echo first; yes 0123456789 | head -c 3000000; echo; echo last`))()
	got := exitOf(t, e)
	if len(got.Output) > 1100 || got.LeftOut != 3000000+6+6-1024 ||
		!strings.HasPrefix(got.Output, "first\n") || !strings.HasSuffix(got.Output, "\nlast\n") ||
		!strings.Contains(got.Output, leftOut(got.LeftOut)) {
		t.Errorf("%d bytes, %d left out: %.40q", len(got.Output), got.LeftOut, got.Output)
	}
}

// When the call's context ends, the command and all it started are gone before
// the call returns.
func TestTheContextsEndStopsACommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newHost()
	end := execute(t, ctx, shell(t, tool.Spec{}, nil),
		scripted(h, `trap '' TERM; (trap '' TERM; sleep 1000) & echo pids $$ $! .; sleep 1000`))
	h.shows(t, " .\n")
	fields := strings.Fields(h.shown)
	cancel()
	if e := end(); e.err != context.Canceled {
		t.Errorf("%+v", e)
	}
	for _, field := range fields[1:3] {
		pid, err := strconv.Atoi(field)
		must(t, err)
		awaitGone(t, pid)
	}
}

// A command that heeds the signal has its grace.
func TestACommandHasItsGrace(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancel(t.Context())
	h := newHost()
	c, err := NewCommand(launcher(t), tool.Spec{Name: "sh"},
		func(_ context.Context, in run1) (Program, error) {
			return Program{Path: "sh", Args: []string{"-c", in.Script}}, nil
		}, nil)
	must(t, err)
	end := execute(t, ctx, liveTool(t, c, nil), scripted(h,
		`trap 'sleep 0.05; touch `+mark+`; exit' TERM; echo on; while :; do sleep 0.01; done`))
	h.shows(t, "on\n")
	cancel()
	end()
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it was killed: %v", err)
	}
}

// An input that the program can't take any more is told, and the call goes on.
func TestInputAfterItsEnd(t *testing.T) {
	h := newHost()
	end := execute(t, t.Context(), shell(t, tool.Spec{}, nil),
		scripted(h, `exec <&-; echo closed; trap 'exit 0' USR1; echo pid $$ .; while :; do sleep 0.01; done`))
	h.shows(t, " .\n")
	h.type1(t, `{"text":"hello\n"}`)
	h.shows(t, "takes no input any more")
	h.type1(t, `{"txt":"hello\n"}`)
	h.shows(t, `"txt"`)
	pid, err := strconv.Atoi(strings.Fields(h.shown)[2])
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGUSR1))
	if got := exitOf(t, end()); got.ExitCode != 0 {
		t.Errorf("%+v", got)
	}
}

// Errors of a start say what is wrong.
func TestErrorsOfAProgram(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("#!/no/such/interpreter\n"), 0o600))
	script := filepath.Join(dir, "script")
	must(t, os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700))
	c, err := NewCommand(launcher(t), tool.Spec{Name: "any"},
		func(_ context.Context, p Program) (Program, error) { return p, nil }, nil)
	must(t, err)
	for _, q := range []struct {
		program Program
		want    string
	}{
		{Program{}, "names no program"},
		{Program{Path: "nosuchprogram"}, `"nosuchprogram" was not found in PATH`},
		{Program{Path: "./nosuch"}, `"./nosuch" does not exist`},
		{Program{Path: file}, `is not executable`},
		{Program{Path: script}, "what its first line names does not"},
		{Program{Path: "sh", Dir: filepath.Join(dir, "none")}, "does not exist"},
		{Program{Path: "sh", Dir: file}, "is not a folder"},
	} {
		args, err := json.Marshal(q.program)
		must(t, err)
		_, err = liveTool(t, c, nil).Execute(t.Context(), tool.Call{Arguments: args})
		if err == nil || !strings.Contains(err.Error(), q.want) {
			t.Errorf("%+v: %v", q.program, err)
		}
	}
}

// A relative path begins at the command's folder, and its environment is what
// is said.
func TestFolderAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\npwd; echo $A\n"), 0o700))
	c, err := NewCommand(launcher(t), tool.Spec{Name: "any"},
		func(context.Context, struct{}) (Program, error) {
			return Program{Path: "./run", Dir: dir, Env: []string{"A=b"}}, nil
		}, nil)
	must(t, err)
	e := execute(t, t.Context(), liveTool(t, c, nil), tool.Call{Arguments: raw("{}")})()
	if got := exitOf(t, e); got.Output != dir+"\nb\n" {
		t.Errorf("%+v", got)
	}
}

// awaitGone waits until the system has reaped a process, which has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	bound := time.After(20 * time.Second)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-look.C:
		case <-bound:
			t.Fatalf("%d is there", pid)
		}
	}
}
