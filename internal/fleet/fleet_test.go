// Package fleet has several processes of one program share an engine, under the
// faults of several machines: it kills them, stops them for longer than their
// lease, and cuts them off from the engine, and their clocks are minutes apart.
// Users, and the senders of webhooks, meanwhile talk to any of them. A ledger
// outside of the processes notes each entry of a body.
package fleet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// programs are what this program may be instead of a test, each by the
// environment variable that makes it that.
var programs = map[string]func(string) error{directoryVariable: child}

func TestMain(m *testing.M) {
	for variable, run := range programs {
		given := os.Getenv(variable)
		if given == "" {
			continue
		}
		if err := run(given); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// Processes that share an engine, and are killed, stopped, stalled and cut off,
// by clocks that are minutes apart, lose nothing that was acknowledged, do
// nothing twice, and leave no session behind. A process that was stopped
// between its last look and the first line of a body may still enter it. Such
// entries are counted apart.
func TestFleetUnderFaults(t *testing.T) {
	const lease = 800 * time.Millisecond
	w := newWorld(t, lease, false)
	w.engine.SetFaults("",
		sharedkv.Faults{Delay: 20 * time.Millisecond, Late: .05, LateBy: 2 * lease,
			Lose: .004, Cut: .01})
	w.run(func(r *rand.Rand) {
		for range testlength.Deeds.Rounds(.7) {
			w.befall(r)
		}
	})
	w.report(w.audit())
}

// Processes whose clocks are minutes apart don't disturb each other: no call is
// taken for lost, none is done again.
func TestFleetWithWrongClocks(t *testing.T) {
	w := newWorld(t, 2*time.Second, true)
	w.engine.SetFaults("", sharedkv.Faults{Delay: 5 * time.Millisecond})
	w.run(func(*rand.Rand) {
		for range testlength.Deeds.Rounds(.3) { // nothing befalls it but the time
			time.Sleep(100 * time.Millisecond)
		}
	})
	w.report(w.audit())
}

// run has users talk to the fleet while things befall it, and then brings all
// sessions to their end.
func (w *world) run(befall func(*rand.Rand)) {
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
	go func() { users.Wait(); close(ended) }()
	w.t.Cleanup(func() { w.giveUp(); <-ended }) // also if the test ends early
	befall(r)
	close(stop)
	w.engine.Heal()
	w.mu.Lock()
	w.peace = true
	w.mu.Unlock()

	if !w.calm {
		w.withoutTheFirst()
		w.start(w.fleet[0], r)
	}
	w.until(func() bool { return len(w.unfinished("")) == 0 })
	for _, c := range w.unfinished("") {
		w.violation("session %s does not come to its end: it waits for %v; %s",
			c.id, c.waits, w.toldLast(c))
	}
	w.giveUp()
	<-ended
	for _, p := range w.fleet {
		w.end(p)
	}
	w.logs()
}

// withoutTheFirst kills the first process. What it held is carried on by the
// others; but its timers, by their clocks, are not due yet.
func (w *world) withoutTheFirst() {
	w.kill(w.fleet[0])
	w.until(func() bool { return len(w.unfinished(string(tool.ReasonTimer))) == 0 })
	for _, c := range w.unfinished(string(tool.ReasonTimer)) {
		w.violation("session %s is stuck while two processes work: it waits for %v; %s",
			c.id, c.waits, w.toldLast(c))
	}
}

// toldLast returns the last message to the user of a session, and how it is
// stored.
func (w *world) toldLast(c *chat) string {
	w.mu.Lock()
	last := c.last
	w.mu.Unlock()
	st, err := hold.Of(session.NewStore(kvtest.Shared(w.kv), nil)).Load(w.t.Context(), c.id)
	if err != nil {
		return fmt.Sprintf("its user was told %q; %v", last, err)
	}
	return fmt.Sprintf(
		"its user was told %q; it is held: %v, until %v, turn %d, due %v, halt %+v, %d "+
			"takeovers, wake %v, calls %+v", last, st.Held,
		st.LeaseEnd, st.Turn, st.Due, st.Halt, st.Takeovers, st.Wake, st.Calls)
}

func (w *world) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// until waits until so() holds, as long as patience lasts.
func (w *world) until(so func() bool) {
	for end := time.Now().Add(patience); !so() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// unfinished returns the sessions that are not at their end, but for those that
// wait for butFor alone.
func (w *world) unfinished(butFor string) (all []*chat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.sessions {
		if !c.finished &&
			!(butFor != "" && len(c.waits) > 0 && strings.Join(c.waits, "") == butFor) {
			all = append(all, c)
		}
	}
	return all
}

// logs shows what the processes have logged, if FERMATA_LOGS is set, and
// otherwise only why Reconcile could not be asked.
func (w *world) logs() {
	for _, p := range w.fleet {
		b, err := os.ReadFile(filepath.Join(w.dir, p.name+".log"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if os.Getenv("FERMATA_LOGS") != "" ||
				strings.Contains(line, "could not be reconciled") {
				w.t.Logf("%s: %s", p.name, line)
			}
		}
	}
}

// report logs what was counted, and fails the test if that is not enough, or if
// something was wrong.
func (w *world) report(a *audit) {
	var answers, repeats, refused, continued, setAside, heldBack, finished int
	for _, c := range w.sessions {
		answers, repeats, refused = answers+len(c.answers), repeats+c.repeats,
			refused+len(c.refused)
		continued, setAside, heldBack = continued+c.continued, setAside+c.setAside,
			heldBack+c.heldBack
		if c.finished {
			finished++
		}
	}
	w.t.Logf("\n%6d  sessions, %d of them at their end\n%6d  answers acknowledged\n%6d  of them "+
		"once more\n%6d  refused, as the call was over\n"+
		"%6d  times one was carried on by hand, %d of them after it had failed; %d times after "+
		"deaths held it back\n%6d  entries of bodies\n%6d  of idempotent ones again\n"+
		"%6d  faults of the engine: %+v\n%6d  violations\ncalls by outcome: %v\nviolations "+
		"by kind: %v",
		len(w.sessions), finished, answers, repeats, refused, continued, setAside, heldBack,
		a.entries, a.again,
		w.engine.Counts().Sum(), w.engine.Counts(), w.violations, a.settled, w.said)
	for _, d := range deeds {
		if w.did[d] > 0 {
			w.t.Logf("counted: %d %s, %d violations", w.did[d], d, w.violations)
		}
	}
	w.t.Logf("counted: %d sessions of several processes, %d violations",
		len(w.sessions), w.violations)
	w.t.Logf("counted: %d sessions below those, %d violations", a.below, w.violations)
	w.t.Logf("counted: %d entries of bodies by several processes, %d violations",
		a.entries, w.violations)
	w.t.Logf("counted: %d entries by a process that was stopped between its last look and the "+
		"body, 0 violations", a.late)
	if finished == 0 || answers == 0 || a.entries < len(kinds) {
		w.t.Error("hardly anything happened")
	}
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
