package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// patience is how long anything here may take.
const patience = 30 * time.Second

// What befalls the process that has the handle.
const (
	isKilled  = "killed"
	isStopped = "stopped"
	isCutOff  = "cut off"
)

// A process is killed, stopped for longer than its lease, or cut off from the
// engine, while the program of its handle runs. Another process, which looks at
// the handle or drives, tells of it what is so: it has stopped, with an unknown
// outcome, or its program runs again. No two programs of it run at once, and
// what its first process does afterwards changes nothing.
func TestBodiesOfAProcessUnderFaults(t *testing.T) {
	for _, c := range []bodyCase{
		{isKilled, tool.Once, false, false},
		{isKilled, tool.Idempotent, true, true},
		{isStopped, tool.Once, true, false},
		{isStopped, tool.Idempotent, false, true},
		{isCutOff, tool.Once, false, true},
		{isCutOff, tool.ReadOnly, true, false},
	} {
		t.Run(fmt.Sprintf("%s %q", c.fault, c.effect), func(t *testing.T) {
			t.Parallel()
			newBodies(t, hostOrder{Effect: c.effect, Shell: c.shell}).run(c)
		})
	}
}

type bodyCase struct {
	fault  string
	effect tool.Effect
	drives bool // the other process has a worker, and otherwise looks
	shell  bool // the program is a shell, and what it has started beats
}

func (b *bodies) run(c bodyCase) {
	one := b.start("one")
	one.tell(spawnIt)
	b.until("the program runs", func() bool { return len(b.programs()) == 1 })
	two := b.start("two")
	look := fetchIt
	if c.drives {
		two.tell(workOnIt)
		look = listIt
	}
	two.until("it runs", look, handleRuns)

	b.befall(c.fault, one)
	b.carriedOn(c, two, look)
	if there := b.there(b.programs()[0]); there != (c.fault == isStopped && c.effect == tool.Once) {
		b.t.Errorf("its first program is there: %v", there)
	}
	if c.fault != isKilled {
		b.heal(c.fault, one)
		b.until("the first program is gone", func() bool { return !b.there(b.programs()[0]) })
		b.unmoved(c, one)
	}

	must(b.t, os.WriteFile(filepath.Join(b.dir, overFile), nil, 0o600))
	h, all := two.until("it has stopped", look, handleStopped), b.programs()
	two.end()
	if c.effect == tool.Once {
		if len(all) != 1 || h.Status != string(event.Unknown) {
			b.t.Errorf("%d programs have run, and it has stopped as %s %s", len(all), h.Status, h.Output)
		}
		return
	}
	if len(all) != 2 || h.Status != string(event.Done) {
		b.t.Fatalf("%d programs have run, and it has stopped as %s %s", len(all), h.Status, h.Output)
	}
	if both := time.Duration(all[0].to - all[1].from); both >= 0 {
		b.t.Errorf("two programs ran at once, for %v", both)
	}
}

func handleRuns(h tool.Handle) bool    { return h.State == tool.HandleRunning }
func handleStopped(h tool.Handle) bool { return h.State == tool.HandleStopped }

// carriedOn waits until the other process has settled the handle, or its
// program has run again for long enough to be seen beside the first one.
func (b *bodies) carriedOn(c bodyCase, two *hosting, look string) {
	b.t.Helper()
	if c.effect == tool.Once {
		h := two.until("it has stopped", look, handleStopped)
		if h.Status != string(event.Unknown) || !strings.Contains(string(h.Output), "Its process died") {
			b.t.Errorf("it has stopped as %s %s", h.Status, h.Output)
		}
		return
	}
	two.until("its program runs again", look, func(h tool.Handle) bool {
		if !handleRuns(h) {
			b.t.Fatalf("it is told as %+v", h)
		}
		all := b.programs()
		return len(all) > 1 && all[1].beats >= 10
	})
}

// unmoved has the first process, which has lost the handle, tell of it, and
// end. The second program goes on.
func (b *bodies) unmoved(c bodyCase, one *hosting) {
	b.t.Helper()
	if c.effect == tool.Once {
		one.until("the first process tells that it has stopped", fetchIt, handleStopped)
		one.end()
		return
	}
	one.until("the first process tells of it", fetchIt, handleRuns)
	one.end()
	before := b.programs()[1].beats
	b.until("the second program goes on", func() bool { return b.programs()[1].beats > before+3 })
}

// bodies is a store that processes share, and a folder in which programs beat.
type bodies struct {
	t      *testing.T
	dir    string
	engine *sharedkv.Server
	order  hostOrder // of each process, but for its name
}

func newBodies(t *testing.T, o hostOrder) *bodies {
	engine, err := sharedkv.Listen(kvstore.NewMemory())
	must(t, err)
	t.Cleanup(func() { must(t, engine.Close()) })
	o.Dir, o.Engine, o.Lease = t.TempDir(), engine.Addr(), 2*time.Second
	o.Records = filepath.Join(o.Dir, "records")
	return &bodies{t: t, dir: o.Dir, engine: engine, order: o}
}

// befall does to a process what its lease doesn't outlast.
func (b *bodies) befall(fault string, h *hosting) {
	switch fault {
	case isKilled:
		must(b.t, h.cmd.Process.Kill())
		<-h.ended
	case isStopped:
		must(b.t, h.cmd.Process.Signal(syscall.SIGSTOP))
	case isCutOff:
		b.engine.Stall(h.name, time.Hour)
		b.engine.Cut(h.name)
	}
}

// heal lets a process go on that is there.
func (b *bodies) heal(fault string, h *hosting) {
	switch fault {
	case isStopped:
		must(b.t, h.cmd.Process.Signal(syscall.SIGCONT))
	case isCutOff:
		b.engine.Heal()
	}
}

// ran is a program, with the times of its first beat and its last.
type ran struct {
	pid      int
	start    int64
	from, to int64
	beats    int
}

// programs returns those that have beaten, in the order of their first beats.
func (b *bodies) programs() (all []*ran) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, beatsFile))
	if os.IsNotExist(err) {
		return nil
	}
	must(b.t, err)
	known := map[int64]*ran{}
	for line := range strings.Lines(string(text)) {
		var pid int
		var start, at int64
		_, err := fmt.Sscan(line, &pid, &start, &at)
		must(b.t, err)
		p := known[start]
		if p == nil {
			p = &ran{pid: pid, start: start, from: at}
			known[start] = p
			all = append(all, p)
		}
		p.to = at
		p.beats++
	}
	return all
}

// there reports whether a program has not ended.
func (b *bodies) there(p *ran) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func (b *bodies) until(what string, so func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// hosting is a process that may have the handle.
type hosting struct {
	*bodies
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan struct{}
}

func (b *bodies) start(name string) *hosting {
	b.t.Helper()
	self, err := os.Executable()
	must(b.t, err)
	o := b.order
	o.Process = name
	order, err := json.Marshal(o)
	must(b.t, err)
	h := &hosting{bodies: b, name: name, cmd: exec.Command(self), ended: make(chan struct{})}
	h.cmd.Env = append(os.Environ(), hostVariable+"="+string(order))
	h.cmd.Stderr = os.Stderr
	h.in, err = h.cmd.StdinPipe()
	must(b.t, err)
	out, err := h.cmd.StdoutPipe()
	must(b.t, err)
	h.out = bufio.NewReader(out)
	must(b.t, h.cmd.Start())
	b.t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		<-h.ended
	})
	go func() { // beside what is read: Wait would close that
		_, _ = h.cmd.Process.Wait()
		close(h.ended)
	}()
	if said := h.line(); said != "there" {
		b.t.Fatalf("%s says %q", name, said)
	}
	return h
}

func (h *hosting) line() string {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	must(h.t, err)
	return strings.TrimSpace(line)
}

// tell tells a process what to do, and returns what it answers.
func (h *hosting) tell(what string) string {
	h.t.Helper()
	_, err := fmt.Fprintln(h.in, what)
	must(h.t, err)
	told := h.line()
	if strings.HasPrefix(told, "failed") {
		h.t.Fatalf("%s: %s: %s", h.name, what, told)
	}
	return told
}

// until asks a process for the handle until it is told so.
func (h *hosting) until(what, ask string, so func(tool.Handle) bool) (told tool.Handle) {
	h.t.Helper()
	h.bodies.until(what, func() bool {
		told = tool.Handle{}
		must(h.t, json.Unmarshal([]byte(h.tell(ask)), &told))
		return so(told)
	})
	return told
}

// end lets a process end in order.
func (h *hosting) end() {
	h.t.Helper()
	must(h.t, h.in.Close())
	select {
	case <-h.ended:
	case <-time.After(patience):
		h.t.Fatalf("%s did not end within %v", h.name, patience)
	}
}
