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
	"syscall"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore"
)

// world is everything but the processes: the engine, users, senders of
// webhooks, and what befalls the processes.
type world struct {
	t     *testing.T
	dir   string
	lease time.Duration
	// calm: nothing befalls the fleet but delays and wrong clocks. Then no call
	// is lost, or done again.
	calm   bool
	kv     *kvstore.Memory
	engine *sharedkv.Server
	ledger *reader

	// mu guards what follows. It is held over no request and no signal.
	mu         sync.Mutex
	fleet      []*process
	peace      bool // nothing befalls the fleet any more
	over       bool // no user sends any more, whether or not they have what they want
	sessions   map[string]*chat
	did        map[deed]int
	violations int
	said       map[string]int // violations of a kind, so that one fault doesn't fill the log
}

// deed is what befell a process.
type deed string

const (
	killed  deed = "kills"
	stopped deed = "stops longer than a lease"
	stalled deed = "stalls of the engine longer than a lease"
	cut     deed = "broken connections"
	closed  deed = "orderly ends"
)

var deeds = []deed{killed, stopped, stalled, cut, closed}

// process is one of the fleet, over its lives.
type process struct {
	number int
	name   string

	life    int
	cmd     *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
	address string // empty: it isn't there, or told nothing yet
	stops   []stop
}

// stop is a time in which a process was stopped.
type stop struct {
	life     int
	from, to time.Time
}

const processes = 3

func newWorld(t *testing.T, lease time.Duration, calm bool) *world {
	kv := kvstore.NewMemory()
	engine, err := sharedkv.Listen(kv)
	must(t, err)
	w := &world{
		t: t, dir: t.TempDir(), lease: lease, calm: calm, kv: kv, engine: engine,
		sessions: map[string]*chat{}, did: map[deed]int{},
		said: map[string]int{},
	}
	w.ledger = &reader{dir: w.dir}
	l, err := openLedger(w.dir) // so that it is there
	must(t, err)
	must(t, l.file.Close())
	for n := range processes {
		w.fleet = append(w.fleet, &process{number: n, name: fmt.Sprint("process-", n)})
	}
	t.Cleanup(func() {
		for _, p := range w.fleet {
			w.kill(p)
		}
		must(t, engine.Close())
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

// start begins the next life of a process.
func (w *world) start(p *process, r *rand.Rand) {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	p.life++
	o := order{
		Engine: w.engine.Addr(), Process: p.name, Life: p.life, Lease: w.lease,
		Clock: clockOf(p.number, w.calm, r),
		Deaf:  p.number == 1 && p.life%2 == 0,
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
	p.address = "http://" + address
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
	case <-time.After(patience):
		w.violation("%s did not end within %v of being told to", p.name, patience)
		w.kill(p)
	}
}

// pause stops a process with a signal for longer than its lease.
func (w *world) pause(p *process, d time.Duration) {
	s := stop{life: p.life, from: time.Now()}
	must(w.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(d)
	s.to = time.Now()
	w.mu.Lock()
	p.stops = append(p.stops, s)
	w.mu.Unlock()
	must(w.t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// patience is how long a process may take to end, and sessions to come to
// theirs once nothing befalls the fleet any more.
const patience = 30 * time.Second

// befall does something to one of the processes.
func (w *world) befall(r *rand.Rand) {
	p := w.fleet[r.IntN(len(w.fleet))]
	d := deeds[[]int{0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4}[r.IntN(11)]]
	long := w.lease * time.Duration(12+r.IntN(15)) / 10
	switch d {
	case killed:
		w.kill(p)
		time.Sleep(time.Duration(r.Int64N(int64(w.lease * 2))))
		w.start(p, r)
	case stopped:
		w.pause(p, long)
	case stalled:
		w.engine.Stall(p.name, long)
	case cut:
		w.engine.Cut(p.name)
	case closed:
		w.end(p)
		w.start(p, r)
	}
	w.mu.Lock()
	w.did[d]++
	w.mu.Unlock()
	time.Sleep(time.Duration(r.Int64N(int64(w.lease / 2))))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
