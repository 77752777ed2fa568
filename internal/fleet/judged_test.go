package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/histories"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// What is judged here is made up, so that the judge is seen to find what is
// wrong.

const madeUpLease = 800 * time.Millisecond

// at is an instant of what is made up, in leases.
func at(leases float64) instant { return instant(leases * float64(madeUpLease)) }

// madeUp is an audit of one session, and what it has told.
type madeUp struct {
	*audit
	told []string
}

func newMadeUp(t *testing.T) *madeUp {
	m := &madeUp{}
	w := &world{Config: Config{Lease: madeUpLease, Patience: time.Second}, t: t, dir: t.TempDir(),
		kv: kvstore.NewMemory(), said: map[string]int{}, checkFor: checkFor,
		ticking: map[string]*chat{}, looked: at(1),
		errorf: func(format string, args ...any) {
			m.told = append(m.told, fmt.Sprintf(format, args...))
		}}
	w.ledger = &reader{dir: w.dir}
	rn, err := newRunner(session.NewStore(w.kv, nil), &outside{})
	must(t, err)
	t.Cleanup(func() { must(t, rn.Close()) })
	w.rn = rn
	m.audit = &audit{world: w, calls: map[string]*call{}, entries: 100}
	return m
}

func (m *madeUp) call(tool string, s event.Status, notes ...note) *call {
	c := &call{CallDetails: runner.CallDetails{Call: "c", Tool: tool, Status: session.CallSettled,
		Settled: s}, chat: &chat{id: "s", began: at(1), ended: at(100)}, session: "s", notes: notes}
	m.calls[c.Call] = c
	return c
}

// entry is that of a body, by the first life of process "p".
func entry(leases float64) note {
	return note{What: entered, Process: "p", Life: 1, At: at(leases), Key: "k", Fence: 1}
}

// end is that of the body.
func end(leases float64) note {
	n := entry(leases)
	n.What = finished
	return n
}

// A trouble excuses what was in its time, and of its process, and nothing else.
func TestTroublesExcuseWhatTheyOverlap(t *testing.T) {
	kill := func(process string, from, to float64) trouble {
		return trouble{process: process, life: 1, what: killed, from: at(from), to: at(to)}
	}
	for name, c := range map[string]struct {
		notes   []note
		trouble trouble
		wrong   bool
	}{
		"killed while it ran":      {[]note{entry(10)}, kill("p", 11, 12), false},
		"cut off as it was stored": {[]note{entry(10), end(11)}, kill("", 11.9, 20), false},
		"another process":          {[]note{entry(10)}, kill("q", 11, 12), true},
		"another life": {[]note{entry(10)},
			trouble{process: "p", life: 2, from: at(11), to: at(12)}, true},
		"long before":                 {[]note{entry(10)}, kill("p", 1, 9), true},
		"when it was stored long ago": {[]note{entry(10), end(11)}, kill("p", 13, 14), true},
		"when no body lasts so long":  {[]note{entry(10)}, kill("p", 14, 15), true},
		"nothing":                     {[]note{entry(10)}, trouble{from: never}, true},
		"no body, in its turn":        {nil, kill("q", 50, 51), false},
		"no body, after it was over":  {nil, kill("q", 101, 102), true},
		"a clock that steps ahead": {[]note{entry(10)}, trouble{process: "p", life: 1,
			steps: &clock{[]time.Duration{0, time.Minute}, madeUpLease / 4}}, false},
		"a clock that steps seldom": {[]note{entry(10)}, trouble{process: "p", life: 1,
			steps: &clock{[]time.Duration{0}, madeUpLease / 4}}, true},
	} {
		m := newMadeUp(t)
		m.troubles = []trouble{c.trouble}
		m.unknown(m.call("pay", event.Unknown, c.notes...))
		if wrong := len(m.told) > 0; wrong != c.wrong {
			t.Errorf("%s: %q", name, m.told)
		}
	}
}

// A call of a session that a schedule began is judged by when the parent first
// saw that session, and saw it over.
func TestTicksAreJudgedByTheirOwnTime(t *testing.T) {
	open := []runner.Session{{ID: "s"}}
	over := []runner.Session{{ID: "s", Finish: event.FinishStop}}
	for when, wrong := range map[float64]bool{10: true, 25: false, 45: false, 60: true} {
		m := newMadeUp(t)
		m.sawTicks(nil, at(20), at(21))
		m.sawTicks(open, at(30), at(31))
		m.sawTicks(over, at(40), at(50))
		m.sawTicks(over, at(70), at(80))
		m.troubles = []trouble{{process: "p", life: 1, what: killed, from: at(when),
			to: at(when + 1)}}
		c := m.call(tickTool, event.Unknown)
		c.chat = m.ticking["s"]
		m.unknown(c)
		if told := len(m.told) > 0; told != wrong {
			t.Errorf("a trouble at %v: %q", when, m.told)
		}
	}
}

// A clock does not step in what is yet to come.
func TestClocksStepUntilNow(t *testing.T) {
	c := clock{[]time.Duration{0, time.Minute}, time.Hour}
	if c.ahead(now().add(24*time.Hour), never) {
		t.Error("it has stepped ahead in what is yet to come")
	}
	if !c.ahead(now().add(-3*time.Hour), never) {
		t.Error("it has not stepped ahead in three hours")
	}
}

// A request fails, or has no end, only where something befell its process.
func TestRequestsFailByTroubles(t *testing.T) {
	for name, c := range map[string]struct {
		life  int
		from  float64
		wrong int
	}{
		"in its time":  {1, 9, 0},
		"another life": {2, 9, 2},
		"before it":    {1, 1, 2},
	} {
		m := newMadeUp(t)
		m.troubles = []trouble{{process: "p", life: c.life, what: killed, from: at(c.from),
			to: at(c.from + 2)}}
		n := note{What: failed, Process: "p", Life: 1, From: at(10), At: at(11)}
		m.failures([]note{n}, []operation{{Operation: histories.Operation{From: int64(at(10))},
			process: "p", life: 1, open: true}})
		if len(m.told) != c.wrong || m.failed != 1-c.wrong/2 {
			t.Errorf("%s: %d failed by it: %q", name, m.failed, m.told)
		}
	}
}

// A history that can't be checked in its time is a violation.
func TestHistoriesThatCannotBeCheckedFail(t *testing.T) {
	m := newMadeUp(t)
	m.checkFor = time.Nanosecond
	m.call("ship", event.Failed)
	var all []operation // each may have happened, in any order
	for i := range 60 {
		o := operation{Session: "s", Call: "c"}
		o.Name, o.Pause, o.By, o.From, o.Uncertain = "resume", 1, hook, int64(i+1), true
		o.Content = strings.Repeat("n", i+1)
		all = append(all, o)
	}
	m.histories(all)
	if len(m.told) != 1 || !strings.Contains(m.told[0], "it is not known") {
		t.Errorf("%q", m.told)
	}
}

// What would be wrong on a machine that isn't slow is counted, and only a few
// of it pass.
func TestFewJudgementsAreWaived(t *testing.T) {
	for waived, entries := range map[int]int{1: mostWaived, 2: 2*mostWaived - 1} {
		m := newMadeUp(t)
		m.entries = entries
		m.troubles = []trouble{{process: "p", life: 1, what: string(starved), from: at(10),
			to: at(11)}}
		for range waived {
			m.unknown(m.call("pay", event.Unknown, entry(10)))
		}
		m.waivers()
		if wrong := len(m.told) > 0; m.waived != waived || wrong != (waived == 2) {
			t.Errorf("%d, counted as %d: %q", waived, m.waived, m.told)
		}
	}
}

// Sessions that come to no end are violations. Time in which a process had no
// processor doesn't count, up to a bound.
func TestSessionsThatComeToNoEnd(t *testing.T) {
	no := func(from, to float64) note { return note{What: starved, From: at(from), At: at(to)} }
	for want, c := range map[float64][]note{
		0: {no(1, 9), {What: entered, At: at(11)}, no(21, 22)},
		3: {no(8, 11), no(9, 12), no(11.5, 11.8), no(19, 22)},
		6: {no(12, 14), no(16, 17), no(11, 16)},
		9: {no(1, 19)},
	} {
		if d := waitedSince(at(10), at(20), c); d != (waited{10 * madeUpLease, at(want).sub(0)}) {
			t.Errorf("%v: %v", c, d)
		}
	}
	m := newMadeUp(t)
	m.Patience = 20 * time.Millisecond
	l, err := openLedger(m.dir)
	must(t, err)
	begun := now()
	must(t, l.write(note{What: starved, From: begun - 5, At: begun.add(time.Hour)}))
	d := m.until(func() bool { return false })
	if d.all < slowest*m.Patience || d.starved != d.all {
		t.Errorf("it has waited %v", d)
	}
	m.stuck([]*chat{{id: "s"}}, "is stuck", d)
	if len(m.told) != 1 {
		t.Errorf("%q", m.told)
	}
}
