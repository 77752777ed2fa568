package schedule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/internal/zoned"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// A year of schedules in three zones, of sleeps and of timers; in a short test
// the weeks in which clocks are set. The process is restarted hundreds of times:
// in order, or killed at a write. The clock is set by hours, back and forward.
// Nothing is lost, comes twice, or comes before its time by the clock.
func TestYearsOfRestarts(t *testing.T) {
	for n := range testlength.Years.Rounds(.5) {
		synctest.Test(t, func(t *testing.T) { newYear(t, uint64(n)).live() })
	}
}

// begin is when a year begins. On the 26th of March of 2000 clocks were set in
// Berlin and on Lord Howe, and on the 2nd of April in New York.
var begin = time.Date(2000, 3, 23, 0, 0, 0, 0, time.UTC)

// year is the world of one simulated year.
type year struct {
	t      *testing.T
	random *rand.Rand
	engine *kvstore.Memory
	faults *faultkv.Injector
	rn     *runner.Runner
	work   chan error
	stop   context.CancelFunc
	skew   atomic.Int64 // nanoseconds, of the clock, since it is set
	latest time.Time    // that the clock has shown
	lives  int
	deaths int

	schedules []yearly
	pending   []*waiting // what is to be sent, and was not acknowledged
	waits     []*waiting // all that were
}

// yearly is a schedule, and what a clock in its zone shows each time.
type yearly struct {
	schedule.Schedule
	clocks []string // times of day; none: each hour, at minute 45
}

// waiting is a session that sleeps, or waits for a timer.
type waiting struct {
	id, text string
	least    time.Duration // how long, from when it begins; zero: until
	until    time.Time
}

func newYear(t *testing.T, seed uint64) *year {
	y := &year{t: t, random: rand.New(rand.NewPCG(seed, 2000)), engine: kvstore.NewMemory()}
	for _, s := range []struct {
		id, cron, zone string
		clocks         []string
		missed         schedule.Missed
	}{
		{"berlin", "30 2 * * *", "Europe/Berlin", []string{"02:30"}, schedule.MissedAll},
		{"york", "15,45 1-2 * * *", "America/New_York", []string{"01:15", "01:45", "02:15", "02:45"},
			schedule.MissedAll},
		{"howe", "15 2 * * *", "Australia/Lord_Howe", []string{"02:15"}, schedule.MissedAll},
		{"hours", "45 * * * *", "Europe/Berlin", nil, schedule.MissedOnce},
		{"skip", "0 12 * * *", "America/New_York", []string{"12:00"}, schedule.MissedSkip},
	} {
		own := yearly{schedule.Schedule{ID: s.id, User: "ada", Cron: s.cron, Zone: s.zone,
			Missed: s.missed, Overlap: schedule.OverlapAllow,
			Do: schedule.Target{Agent: "clerk", Message: llm.UserText(s.id)}}, s.clocks}
		if s.id == "howe" {
			own.Overlap = schedule.OverlapWait
		}
		y.schedules = append(y.schedules, own)
	}
	return y
}

// now is the store's clock.
func (y *year) now() time.Time { return time.Now().Add(time.Duration(y.skew.Load())) }

func (y *year) live() {
	time.Sleep(time.Until(begin))
	y.open()
	for _, s := range y.schedules {
		must(y.t, schedule.New(y.rn).Create(y.t.Context(), s.Schedule))
	}
	y.close()
	for range testlength.Lives.N() {
		y.open()
		if y.random.IntN(2) == 0 {
			y.faults.Add(faultkv.FailAt(1 + y.random.IntN(120)).AndDie())
		}
		for range 1 + y.random.IntN(4) {
			y.something()
			y.pass(time.Duration(1+y.random.IntN(16*60)) * time.Minute)
		}
		y.close()
		if down := y.random.IntN(10); down == 0 {
			y.pass(time.Duration(y.random.IntN(4*24)) * time.Hour)
		} else {
			y.pass(time.Duration(y.random.IntN(3*60)) * time.Minute)
		}
	}
	y.last()
	y.t.Logf("counted: %d lives of a process in %v, %d of them killed at a write; %d waits, "+
		"0 violations", y.lives, time.Since(begin), y.deaths, len(y.waits))
}

// last lives once more, with nothing that fails, until all has come.
func (y *year) last() {
	y.skew.Store(max(y.skew.Load(), int64(time.Until(y.latest))))
	y.open()
	y.retry()
	y.pass(y.longest() + 3*24*time.Hour)
	synctest.Wait()
	now := y.now()
	for _, s := range y.schedules {
		y.judge(s, now)
	}
	for _, w := range y.waits {
		y.judgeWait(w)
	}
	y.close()
	for p, err := range session.NewStore(y.engine, nil).Check(y.t.Context()) {
		y.t.Errorf("the store is left with %v, %v", p, err)
	}
	must(y.t, y.engine.Close())
}

// longest is how long a session waits at most.
func (y *year) longest() time.Duration {
	return time.Duration(min(30, testlength.Lives.N()/3)) * 24 * time.Hour
}

// something happens: the clock is set, or a session begins to wait.
func (y *year) something() {
	y.retry()
	synctest.Wait() // what was decided by the clock is done by the clock
	switch what := y.random.IntN(4); {
	case what == 0 && !y.faults.Dead():
		y.skew.Store(int64(y.random.IntN(11)-5) * int64(time.Hour))
	case what > 1:
		y.pending = append(y.pending, y.newWait())
		y.retry()
	}
}

// retry sends what was not acknowledged.
func (y *year) retry() {
	for len(y.pending) > 0 {
		w := y.pending[0]
		_, err := y.rn.Send(y.t.Context(), "ada", w.id, llm.UserText(w.text),
			&runner.SendOptions{Agent: "waiter", MessageID: w.id})
		if err != nil {
			if !y.faults.Dead() {
				y.t.Fatal(err)
			}
			return
		}
		y.pending = y.pending[1:]
		y.waits = append(y.waits, w)
	}
}

// newWait makes a session that is to sleep, for a length or until a time, or to
// wait for a timer.
func (y *year) newWait() *waiting {
	w := &waiting{id: fmt.Sprintf("wait-%04d", len(y.waits)+len(y.pending)),
		least: time.Duration(1+y.random.Int64N(int64(y.longest()/time.Minute))) * time.Minute}
	ms := w.least.Milliseconds()
	switch y.random.IntN(3) {
	case 0:
		w.text = fmt.Sprintf(`{"tool":"sleep","args":{"durationMs":%d}}`, ms)
	case 1:
		w.text = fmt.Sprintf(`{"tool":"create_wait_handle","args":`+
			`{"handleId":"t","type":"timer","timeoutMs":%d}}`, ms)
	case 2:
		zone := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}[y.random.IntN(3)]
		date := y.latest.Add(w.least + 24*time.Hour).Format(time.DateOnly)
		clock := fmt.Sprintf("%02d:%02d", y.random.IntN(4), y.random.IntN(60))
		var err error
		w.until, err = zoned.At(date, clock, zone)
		must(y.t, err)
		w.least = 0
		w.text = fmt.Sprintf(`{"tool":"sleep","args":{"until":`+
			`{"date":%q,"time":%q,"zone":%q}}}`, date, clock, zone)
	}
	return w
}

// pass lets time pass.
func (y *year) pass(d time.Duration) {
	y.see()
	time.Sleep(d)
	y.see()
}

// see notes what the clock shows.
func (y *year) see() {
	if now := y.now(); now.After(y.latest) {
		y.latest = now
	}
}

// waiter makes what the user's message asks for, and waits for the timer that
// came of it.
var waiter = fakellm.New(fakellm.From(func(r llm.Request) fakellm.Turn {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == llm.RoleUser {
		var ask struct {
			Tool string
			Args json.RawMessage
		}
		if err := json.Unmarshal([]byte(last.Text()), &ask); err != nil {
			return fakellm.Says(err.Error())
		}
		return fakellm.Calls(ask.Tool, string(ask.Args))
	}
	for _, p := range last.Parts {
		if result, ok := p.(llm.ToolResult); ok && result.Name == "create_wait_handle" {
			return fakellm.Calls("wait_for", `{"handleId":"t"}`)
		}
	}
	return fakellm.Says("Done.")
}).Forever())

// open begins a life.
func (y *year) open() {
	y.t.Helper()
	set, err := wait.New(wait.Config{})
	must(y.t, err)
	var agents []*agent.Agent
	for _, c := range []agent.Config{schedule.Agent(), {Name: "clerk", Model: fakellm.Echo()},
		{Name: "waiter", Model: waiter, Tools: set.Tools()}} {
		a, err := agent.New(c)
		must(y.t, err)
		agents = append(agents, a)
	}
	y.faults = faultkv.New(y.engine)
	store := session.NewStore(y.faults.Store, &session.Options{Now: y.now})
	y.rn, err = runner.New(agents[0], store, &runner.Options{
		Agents: agents[1:], Logger: slog.New(slog.DiscardHandler),
	})
	must(y.t, err)
	ctx, stop := context.WithCancel(y.t.Context())
	y.stop, y.work = stop, make(chan error, 1)
	y.lives++
	go func() {
		y.work <- y.rn.Work(ctx, &runner.WorkOptions{Poll: 20 * time.Minute, SweepEvery: -1})
	}()
}

// close ends a life, if it has not died.
func (y *year) close() {
	y.t.Helper()
	dead := y.faults.Dead()
	y.stop()
	err := errors.Join(<-y.work, y.rn.Close())
	if dead {
		y.deaths++
	} else if err != nil && !errors.Is(err, context.Canceled) && !y.faults.Dead() {
		y.t.Error(err)
	}
	y.engine = y.engine.Reopen()
}

// judge holds what a schedule has fired against the clocks of its zone.
func (y *year) judge(s yearly, now time.Time) {
	is, err := schedule.New(y.rn).Show(y.t.Context(), s.ID, "test")
	must(y.t, err)
	fired := map[string]time.Time{}
	for l, err := range y.rn.Sessions(y.t.Context(), session.Filter{Agent: "clerk"}, "test") {
		must(y.t, err)
		if strings.HasPrefix(l.ID, s.ID+"@") {
			fired[l.ID] = l.Created
			if l.Messages != 2 || l.Finish != event.FinishStop {
				y.t.Errorf("%s has %d messages, and has ended so: %q", l.ID, l.Messages, l.Finish)
			}
		}
	}
	if is.Fired != len(fired) || is.Failed > 0 || len(is.Due) > 0 {
		y.t.Errorf("%s has fired %d times, and stands so: %+v", s.ID, len(fired), is)
	}
	var missed []time.Time // since the last that has fired
	lost := 0
	for _, nominal := range y.nominal(s, now) {
		id := schedule.FiringID(s.ID, nominal)
		at, there := fired[id]
		delete(fired, id)
		switch {
		case !there:
			lost++
			missed = append(missed, nominal)
			continue
		case at.Before(nominal):
			y.t.Errorf("%s has fired early, at %v", id, at)
		}
		for _, m := range missed {
			if at.Sub(m) <= schedule.DefaultGrace {
				y.t.Errorf("%s was left out, and %s has fired at %v", schedule.FiringID(s.ID, m), id, at)
			}
		}
		missed = nil
	}
	for id := range fired {
		y.t.Errorf("%s has fired, and is no time of the schedule", id)
	}
	switch {
	case s.Missed == schedule.MissedAll && lost > 0:
		y.t.Errorf("%d firings of %s are lost", lost, s.ID)
	case s.Missed == schedule.MissedOnce && len(missed) > 0:
		y.t.Errorf("%d firings of %s are lost at the end", len(missed), s.ID)
	case s.Missed != schedule.MissedAll && lost == 0 && y.lives > 100:
		y.t.Errorf("no firing of %s was missed, and the test has tested nothing", s.ID)
	}
}

// nominal lists the times of a schedule from the begin on.
func (y *year) nominal(s yearly, now time.Time) (all []time.Time) {
	add := func(at time.Time) {
		again := len(all) > 0 && all[len(all)-1].Equal(at)
		if at.After(begin) && !at.After(now) && !again {
			all = append(all, at)
		}
	}
	if s.clocks == nil {
		for at := begin.Add(45 * time.Minute); !at.After(now); at = at.Add(time.Hour) {
			add(at)
		}
		return all
	}
	for day := begin.AddDate(0, 0, -1); day.Before(now.AddDate(0, 0, 2)); day = day.AddDate(0, 0, 1) {
		for _, clock := range s.clocks {
			at, err := zoned.At(day.Format(time.DateOnly), clock, s.Zone)
			must(y.t, err)
			add(at)
		}
	}
	return all
}

// judgeWait makes sure that a session has waited once, and not too short.
func (y *year) judgeWait(w *waiting) {
	shown, err := y.rn.Show(y.t.Context(), w.id, "test")
	must(y.t, err)
	if shown.Finish != event.FinishStop {
		y.t.Errorf("%s, %s, is lost: it stands so: %q", w.id, w.text, shown.Finish)
		return
	}
	results := 0
	for _, m := range shown.History {
		for _, p := range m.Parts {
			result, ok := p.(llm.ToolResult)
			if !ok || result.Name == "create_wait_handle" {
				continue
			}
			results++
			var r struct {
				Start  time.Time       `json:"startTime"`
				End    time.Time       `json:"endTime"`
				Status tool.WaitStatus `json:"status"`
			}
			if err := json.Unmarshal(result.Output, &r); err != nil || result.Error {
				y.t.Errorf("%s, %s: %v: %s", w.id, w.text, err, result.Output)
			}
			if early := r.End.Sub(r.Start) < w.least || r.End.Before(w.until); early {
				y.t.Errorf("%s, %s, has waited too short: %s", w.id, w.text, result.Output)
			}
			if result.Name == "wait_for" && r.Status != tool.WaitCompleted {
				y.t.Errorf("%s, %s: %s", w.id, w.text, result.Output)
			}
		}
	}
	if results != 1 {
		y.t.Errorf("%s has %d results", w.id, results)
	}
}
