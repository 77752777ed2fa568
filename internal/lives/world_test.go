package lives

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// moment is what a child was doing when it was killed.
type moment string

const (
	inCommit moment = "in a commit" // whatever else
	inBody   moment = "in a body"
	idle     moment = "while idle"
)

var moments = []moment{inBody, inCommit, idle}

// world is everything but the child: users, senders of webhooks, and the
// goroutine that kills.
type world struct {
	t   *testing.T
	dir string
	// again is the pace at which a sender that was refused, or a user who waits
	// for the outside world, looks again.
	again *time.Ticker

	// mu guards what follows. Changed, on mu, is broadcast by change.
	mu         sync.Mutex
	changed    sync.Cond
	address    string // of the child that lives; empty: none does
	over       bool   // no user sends any more, whether or not they have what they want
	begun      int    // sessions
	answers    map[string]answer
	refused    map[string]string // by call: why an answer was refused for good
	events     int               // that were acknowledged
	repeats    int               // answers that were acknowledged as duplicates
	seen       []effect          // of bodies
	kills      map[moment]int
	violations int
}

func newWorld(t *testing.T) *world {
	// Several goroutines share its ticks; they are frequent enough to come
	// before many a body has returned.
	again := time.NewTicker(400 * time.Microsecond)
	t.Cleanup(again.Stop)
	w := &world{t: t, dir: t.TempDir(), again: again, answers: map[string]answer{},
		refused: map[string]string{}, kills: map[moment]int{}}
	w.changed.L = &w.mu
	return w
}

// change changes what others wait for.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.changed.Broadcast()
}

// violation counts something that must not be, and logs what.
func (w *world) violation(format string, args ...any) {
	w.t.Helper()
	w.change(func() { w.violations++ })
	w.t.Errorf(format, args...)
}

// process is one life of the child.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // of its output, closed at its end
}

func (w *world) start() *process {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	p := &process{cmd: exec.Command(self), lines: make(chan string, 1<<10)}
	p.cmd.Env = append(os.Environ(), childDirectory+"="+w.dir)
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	must(w.t, err)
	output, err := p.cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(output); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	first, ok := <-p.lines
	address, found := strings.CutPrefix(first, "at ")
	if !ok || !found {
		_ = p.end()
		w.t.Fatalf("the child says %q", first)
	}
	w.change(func() { w.address = "http://" + address })
	return p
}

// end lets a child end by itself.
func (p *process) end() error {
	_ = p.stdin.Close()
	for range p.lines { // the child must not wait for its output to be read
	}
	return p.cmd.Wait()
}

// stalled is how long nothing may happen.
const stalled = 30 * time.Second

// kill lets a child live for a while, and then ends it at a moment of the
// wanted kind. In a body, or while nothing happens, it holds still for that. A
// commit must be cut wherever it is: the lines before the kill show whether it
// came in time.
func (w *world) kill(p *process, r *rand.Rand, want moment) {
	flying := inFlight{}
	grown := time.After(time.Duration(r.IntN(25)) * time.Millisecond) // a life is not always short
	tooOld := time.After(stalled)
	for mature, now := false, false; !now; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				w.t.Fatalf("the child ended by itself: %v", p.cmd.Wait())
			}
			flying.note(line)
			now = line == nowHeld || mature && want == inCommit && flying.moment() == want
		case <-grown:
			mature = true
			if want != inCommit {
				_, err := fmt.Fprintln(p.stdin, want)
				must(w.t, err)
			}
		case <-tooOld:
			w.violation("in %v there was no moment %s", stalled, want)
			now = true
		}
	}
	if want == inCommit { // at its beginning, or in its middle
		<-time.After(time.Duration(r.IntN(2)*r.IntN(400)) * time.Microsecond)
	}
	w.change(func() { w.address = "" })
	must(w.t, p.cmd.Process.Kill())
	for line := range p.lines {
		flying.note(line) // all that it had written before
	}
	_ = p.cmd.Wait()
	w.change(func() { w.kills[flying.moment()]++ })
}

// inFlight counts what a child has begun and not ended.
type inFlight map[string]int

func (f inFlight) note(line string) {
	if what, ok := strings.CutSuffix(line, "+"); ok {
		f[what]++
	} else if what, ok := strings.CutSuffix(line, "-"); ok {
		f[what]--
	}
}

func (f inFlight) moment() moment {
	switch {
	case f["commit"] > 0:
		return inCommit
	case f["body"] > 0:
		return inBody
	}
	return idle
}

// rarest returns the kind of moment with the fewest kills so far, and their
// number. Sound is true if nothing was wrong yet.
func (w *world) rarest() (rare moment, n int, sound bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rare = moments[0]
	for _, m := range moments {
		if w.kills[m] < w.kills[rare] {
			rare = m
		}
	}
	return rare, w.kills[rare], w.violations == 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
