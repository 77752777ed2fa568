package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// world is everything but the processes: the engine, users, senders of
// webhooks, and what befalls the processes.
type world struct {
	Config
	t      *testing.T
	dir    string
	kv     kvstore.Store // past all faults
	ledger *reader

	// mu guards what follows. It is held over no request and no signal.
	mu         sync.Mutex
	fleet      []*process
	peace      bool // nothing befalls the fleet any more
	over       bool // no user sends any more, whether or not they have what they want
	sessions   map[string]*chat
	did        map[string]int // what befell the fleet
	troubles   []trouble      // by what befell it
	violations int
	said       map[string]int // violations of a kind, so that one fault doesn't fill the log
}

// What befalls a process, whatever its engine.
const (
	killed  = "kills"
	stopped = "stops longer than a lease"
	amid    = "stops amid an effect, until another process has taken over"
	closed  = "orderly ends"
	changed = "replacements by another version"
)

// process is one of the fleet, over its lives.
type process struct {
	Role
	number int
	name   string

	later   bool // it is of the later version, in its next life
	life    int
	cmd     *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
	address string // empty: it takes no requests, isn't there, or told nothing yet
}

// trouble is a time in which a process may have lost what it held; an empty
// name: any process.
type trouble struct {
	process  string
	what     string
	life     int // zero: of any
	from, to instant
}

func newWorld(t *testing.T, c Config) *world {
	w := &world{
		Config: c, t: t, dir: t.TempDir(), kv: c.Engine.Store(),
		sessions: map[string]*chat{}, did: map[string]int{}, said: map[string]int{},
	}
	if c.Versions {
		w.kv = asLater(w.kv, func(string, bool) {})
	}
	w.ledger = &reader{dir: w.dir}
	l, err := openLedger(w.dir) // so that it is there
	must(t, err)
	must(t, l.file.Close())
	for n, role := range c.Processes {
		w.fleet = append(w.fleet, &process{Role: role, number: n, name: fmt.Sprint("process-", n)})
	}
	t.Cleanup(func() {
		for _, p := range w.fleet {
			w.kill(p)
		}
	})
	return w
}

// violation counts something that must not be, and logs what. Of a kind, which
// is the format, it logs the first few only.
func (w *world) violation(format string, args ...any) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations++
	if w.said[format]++; w.said[format] <= 5 {
		w.t.Errorf(format, args...)
	}
}

// befell notes what befell a process, or all of them, and until now.
func (w *world) befell(x trouble) {
	x.to = now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[x.what]++
	w.troubles = append(w.troubles, x)
}

// first returns the process whose clock is ahead of all others': one that works.
func (w *world) first() *process {
	for _, p := range w.fleet {
		if p.Works {
			return p
		}
	}
	return w.fleet[0]
}

// start begins the next life of a process.
func (w *world) start(p *process, r *rand.Rand) {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	p.life++
	place := p.number - w.first().number
	o := order{
		Place: Place{URL: w.Engine.URL(p.name), Process: p.name, Lease: w.Lease,
			Deaf: place == 1 && p.life%2 == 0},
		Role: p.Role, Life: p.life, Later: p.later, Clock: clockOf(place, w.Calm, r),
	}
	if w.EngineClock {
		o.Clock = clock{}
	}
	b, err := json.Marshal(o)
	must(w.t, err)
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), directoryVariable+"="+w.dir, orderVariable+"="+string(b))
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	must(w.t, err)
	output, err := p.cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, p.cmd.Start())
	first, err := bufio.NewReader(output).ReadString('\n')
	must(w.t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(first), "at ")
	if !ok {
		w.t.Fatalf("the child says %q", first)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(p.cmd, p.ended)
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Clock.Every > 0 { // it takes its machine for one that has slept, and its leases for lost
		w.troubles = append(w.troubles, trouble{process: p.name, what: "steps of its clock", life: p.life,
			from: 0, to: never})
	}
	if p.Doors {
		p.address = "http://" + address
	}
}

// gone notes that a process takes no more requests.
func (w *world) gone(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.address = ""
}

func (w *world) kill(p *process) {
	if p.cmd == nil {
		return
	}
	w.gone(p)
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.stdin.Close()
	p.cmd = nil
}

// end lets a process end in order. It is a violation if the process doesn't,
// although nothing keeps it.
func (w *world) end(p *process) {
	if p.cmd == nil {
		return
	}
	w.gone(p)
	_ = p.stdin.Close()
	select {
	case <-p.ended:
		p.cmd = nil
	case <-time.After(w.Patience):
		w.violation("%s did not end within %v of being told to", p.name, w.Patience)
		w.kill(p)
	}
}

// befall does something to one of the processes.
func (w *world) befall(n int, r *rand.Rand) {
	if n == 0 || r.IntN(6) == 0 {
		w.stopAmid()
		return
	}
	p := w.fleet[r.IntN(len(w.fleet))]
	if w.Versions && r.IntN(2) == 0 {
		w.replace(p, r)
		return
	}
	x := trouble{process: p.name, life: p.life, from: now()}
	switch n := r.IntN(9); {
	case n < 4:
		x.what = killed
		w.kill(p)
		time.Sleep(time.Duration(r.Int64N(int64(w.Lease * 2))))
		w.start(p, r)
	case n < 8:
		x.what = stopped
		must(w.t, p.cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(w.long(r))
		must(w.t, p.cmd.Process.Signal(syscall.SIGCONT))
	default:
		x.what = closed
		w.end(p)
		w.start(p, r)
	}
	w.befell(x)
	time.Sleep(time.Duration(r.Int64N(int64(w.Lease / 2))))
}

// stopAmid stops a process that has just entered a body that takes a while,
// whose effect is once, until another one carries the session on.
func (w *world) stopAmid() {
	before := len(w.notes())
	e := w.awaitNote(before, 4*w.Lease, func(n note) bool {
		return n.What == entered && n.Tool == longTool && w.lives(n)
	})
	if e.Process == "" {
		return // no session has come so far
	}
	p := w.fleet[slices.IndexFunc(w.fleet, func(p *process) bool { return p.name == e.Process })]
	x := trouble{process: p.name, life: p.life, what: amid, from: now()}
	must(w.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	w.awaitNote(before, 10*w.Lease, func(n note) bool {
		return n.Session == e.Session && n.Fence > e.Fence
	})
	must(w.t, p.cmd.Process.Signal(syscall.SIGCONT))
	w.befell(x)
}

// lives reports whether a note is of a process that runs.
func (w *world) lives(n note) bool {
	return slices.ContainsFunc(w.fleet, func(p *process) bool {
		return p.name == n.Process && p.life == n.Life && p.cmd != nil
	})
}

func (w *world) notes() []note {
	notes, err := w.ledger.all()
	must(w.t, err)
	return notes
}

// awaitNote waits for a note after the first ones; the zero one: none has come.
func (w *world) awaitNote(after int, wait time.Duration, is func(note) bool) note {
	for begun := now(); now().sub(begun) < wait; time.Sleep(2 * time.Millisecond) {
		notes := w.notes()
		if i := slices.IndexFunc(notes[after:], is); i >= 0 {
			return notes[after+i]
		}
	}
	return note{}
}

// replace replaces a process by one of the other version, as a deploy does, or
// one that is taken back.
func (w *world) replace(p *process, r *rand.Rand) {
	x := trouble{process: p.name, life: p.life, what: changed, from: now()}
	w.end(p)
	p.later = !p.later
	w.start(p, r)
	w.befell(x)
	time.Sleep(w.Lease)
}

// long is a time in which a lease ends.
func (w *world) long(r *rand.Rand) time.Duration {
	return w.Lease * time.Duration(12+r.IntN(15)) / 10
}

// befallEngine does something to the engine, or to the way of a process to it.
func (w *world) befallEngine(d Deed, r *rand.Rand) {
	x := trouble{what: d.What, from: now()}
	name := w.fleet[r.IntN(len(w.fleet))].name
	if !d.Everywhere {
		x.process = name
	}
	d.Do(w.t, name, w.long(r))
	w.befell(x)
	time.Sleep(time.Duration(r.Int64N(int64(w.Lease))))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
