package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// world is everything but the processes: the engine, users, senders of
// webhooks, and what befalls the processes.
type world struct {
	Config
	t      *testing.T
	errorf func(format string, args ...any) // the test's
	dir    string
	kv     kvstore.Store // past all faults
	// checkFor is how long the history of a call may take to be checked.
	checkFor time.Duration
	ledger   *reader
	rn       *runner.Runner // on kv; it carries nothing on

	// mu guards what follows. It is held over no request and no signal.
	mu         sync.Mutex
	fleet      []*process
	peace      bool // nothing befalls the fleet any more
	over       bool // no user sends any more, whether or not they have what they want
	sessions   map[string]*chat
	did        map[string]int // what befell the fleet
	troubles   []trouble      // by what befell it
	violations int
	said       map[string]int   // violations of a kind, so that one fault doesn't fill the log
	wrong      []string         // those that were logged
	ticking    map[string]*chat // by id: sessions that the schedule began, as the parent saw them
	looked     instant          // when the latest look at those began
}

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

func newWorld(t *testing.T, c Config) *world {
	w := &world{
		Config: c, t: t, errorf: t.Errorf, checkFor: checkFor, dir: t.TempDir(), kv: c.Engine.Store(),
		sessions: map[string]*chat{}, did: map[string]int{}, said: map[string]int{},
		ticking: map[string]*chat{}, looked: now(),
	}
	if c.Versions {
		w.kv = asLater(w.kv, func(string, bool) {})
	}
	w.ledger = &reader{dir: w.dir}
	l, err := openLedger(w.dir) // so that it is there
	must(t, err)
	must(t, l.file.Close())
	w.rn, err = newRunner(session.NewStore(w.kv, nil), &outside{})
	must(t, err)
	t.Cleanup(func() { w.rn.Close() })
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
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
		w.errorf(format, args...)
	}
}

// first returns the process whose clock is ahead of all others': one that
// works.
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
		Role: p.Role, Life: p.life, Later: p.later, Ahead: w.Ahead, Clock: clockOf(place, w.Calm, r),
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
			steps: &o.Clock})
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
		if dump(p.cmd.Process) == nil {
			time.Sleep(time.Second)
		}
		w.kill(p)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
