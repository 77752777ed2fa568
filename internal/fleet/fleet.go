// Package fleet has several processes of one program share an engine, under the
// faults of several machines: it kills them, stops them for longer than their
// lease, and cuts them off from the engine, and their clocks are minutes apart.
// What befalls the engine itself, the engine's own tests add. Users, and the
// senders of webhooks, meanwhile talk to any of them. A ledger outside of the
// processes notes each entry of a body.
//
// It is for tests of this repository's engines, and no part of the library. A
// test program is the processes' program, too: its TestMain calls [Child].
//
// Where things are: what a test calls: fleet.go; who takes part, and what
// befalls them: world.go, befall.go, and how long they are waited for:
// patience.go; the processes: child.go, agents.go, tools.go, clock.go,
// watched.go, later.go; their users: users.go, deliver.go; what is noted, and
// when: ledger.go, journal.go, recorded.go, instant.go and, for each system,
// another one; what is judged in the end: report.go, audit.go, troubles.go,
// checked.go. Judged_test.go has the judges judge what is made up.
package fleet

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Engine is what the processes share, with what may befall it.
type Engine interface {
	// URL returns where a process finds the engine: its own way there.
	URL(process string) string
	// Store returns the store past all faults.
	Store() kvstore.Store
	// Deeds returns what may befall the engine.
	Deeds() []Deed
	// Heal ends all that befalls it.
	Heal()
	// Log returns what struck, in words.
	Log() string
}

// Deed is something that may befall the engine, or the way of a process to it.
type Deed struct {
	What  string // in the plural
	Often int    // beside other deeds
	// Everywhere: no process may have an answer meanwhile.
	Everywhere bool
	// Do does it, for a time in which a lease ends, and returns when it is
	// over.
	Do func(t *testing.T, process string, long time.Duration)
}

// Role is what a process is for: it takes requests, or carries sessions on.
type Role struct{ Doors, Works bool }

// Config describes a fleet. All fields but the first three may be left out.
type Config struct {
	Engine Engine
	Lease  time.Duration
	// Rounds yields once for each thing that befalls a process.
	Rounds iter.Seq[int]
	// Calm: nothing befalls the fleet but delays and wrong clocks. Then no call
	// is lost, or done again.
	Calm bool
	// EngineClock: processes take the engine's time. Otherwise each has a clock
	// of its own, which is wrong.
	EngineClock bool
	// Ahead is by how much the clocks of all processes are behind the engine's.
	// If that is more than calls wait, what one clock begins the other ends at
	// once, or never.
	Ahead time.Duration
	// Versions: processes are replaced by others of a later version, one by
	// one, and some taken back.
	Versions bool
	// Processes are those of the fleet; default: three that do all.
	Processes []Role
	// Patience is how long a process may take to end, and sessions to come to
	// theirs once nothing befalls the fleet any more; default 30 s.
	Patience time.Duration
}

// Run has users talk to a fleet while things befall it, brings all sessions to
// their end, and holds the store against what was told and done.
func Run(t *testing.T, c Config) {
	t.Helper()
	if len(c.Processes) == 0 {
		c.Processes = []Role{{true, true}, {true, true}, {true, true}}
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	w := newWorld(t, c)
	w.run()
	w.report(w.audit())
}

func (w *world) run() {
	seed := number(w.t, "FERMATA_SEED", rand.Uint64())
	w.t.Logf("FERMATA_SEED=%d makes the same choices", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, p := range w.fleet {
		w.start(p, r)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	var users sync.WaitGroup
	for i := range 4 {
		users.Go(func() {
			w.user(stop, fmt.Sprint("chat-", i), rand.New(rand.NewPCG(seed, uint64(1+i))))
		})
	}
	users.Go(w.watchTicks)
	go func() { users.Wait(); close(ended) }()
	w.t.Cleanup(func() { w.giveUp(); <-ended }) // also if the test ends early
	w.tick("/begin", r)
	w.befallAll(seed, r)
	close(stop)
	w.Engine.Heal()
	for _, p := range w.fleet {
		if w.Versions && !p.later {
			w.replace(p, r)
		}
	}
	w.mu.Lock()
	w.peace = true
	w.mu.Unlock()
	w.ends("the schedule does not fire", func() bool { return len(w.ticks()) > 1 })
	w.tick("/pause", r)

	if !w.Calm {
		w.withoutTheFirst()
		w.start(w.first(), r)
	}
	waited := w.until(func() bool { return len(w.unfinished()) == 0 })
	w.stuck(w.unfinished(), "does not come to its end", waited)
	w.ends("a firing of the schedule has no end", w.ticked)
	w.ends("a permit was not given back", w.free)
	w.giveUp()
	<-ended
	for _, p := range w.fleet {
		x := trouble{process: p.name, life: p.life, what: closed, from: now()}
		w.end(p)
		w.noteTrouble(x)
	}
	w.logs()
}

// befallAll has things befall the processes and, beside that, the engine.
func (w *world) befallAll(seed uint64, r *rand.Rand) {
	if w.Calm { // nothing befalls it but the time
		for range w.Rounds {
			time.Sleep(100 * time.Millisecond)
		}
		return
	}
	over := make(chan struct{})
	var engine sync.WaitGroup
	if len(w.Engine.Deeds()) > 0 {
		engine.Go(func() {
			r := rand.New(rand.NewPCG(seed, 100))
			for n, all := 0, w.deeds(); ; n++ { // each kind comes, also in a short test
				if n%len(all) == 0 {
					r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				}
				select {
				case <-over:
					return
				default:
					w.befallEngine(all[n%len(all)], r)
				}
			}
		})
	}
	for n := range w.Rounds {
		w.befall(n, r)
	}
	close(over)
	engine.Wait()
}

// deeds has those of the engine, each as often as it may come.
func (w *world) deeds() (all []Deed) {
	for _, d := range w.Engine.Deeds() {
		for range d.Often {
			all = append(all, d)
		}
	}
	return all
}

// withoutTheFirst kills the first process that works. What it held is carried
// on by the others; but timers that were set by its clock are not due yet by
// theirs.
func (w *world) withoutTheFirst() {
	x := trouble{process: w.first().name, life: w.first().life, what: killed, from: now()}
	w.kill(w.first())
	w.befell(x)
	var butFor []string
	if !w.EngineClock {
		butFor = []string{string(tool.ReasonTimer)}
	}
	waited := w.until(func() bool { return len(w.unfinished(butFor...)) == 0 })
	w.stuck(w.unfinished(butFor...), "is stuck while others work", waited)
}

func (w *world) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// number returns the number in an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	must(t, err)
	return n
}
