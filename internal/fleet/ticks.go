package fleet

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
)

// One schedule ticks while things befall the fleet, and all workers carry it
// on. Each of its nominal times begins one session, with one call.

const (
	tickTool = "tick" // also the agent, and the schedule
	tickUser = "clock"
)

// every is the time between two nominal ones. By clocks that are minutes apart
// much is missed at first, and made up for.
func (w *world) every() time.Duration {
	if w.EngineClock {
		return 2 * time.Second
	}
	return 8 * time.Second
}

// handleTicks has the doors of the schedule.
func handleTicks(rn *runner.Runner, handle handleFunc) {
	handle("/begin", func(r *http.Request, _ string) (any, error) {
		return nil, schedule.New(rn).Create(r.Context(), schedule.Schedule{
			ID: tickTool, User: tickUser, Cron: "@every " + r.FormValue("every"),
			Missed: schedule.MissedAll, Overlap: schedule.OverlapAllow,
			Do: schedule.Target{Agent: tickTool, Message: llm.UserText("Tick.")},
		})
	})
	handle("/pause", func(r *http.Request, _ string) (any, error) {
		return nil, schedule.New(rn).Pause(r.Context(), tickTool, "parent")
	})
}

// tick has the schedule begin, or pause.
func (w *world) tick(path string, r *rand.Rand) {
	c := &chat{w: w, id: tickTool, r: r}
	c.wants(path+"?"+url.Values{"every": {w.every().String()}}.Encode(), http.StatusOK)
}

// ticks are the sessions that the schedule has begun.
func (w *world) ticks() []runner.Session {
	all, err := w.lookAtTicks()
	must(w.t, err)
	return all
}

// lookAtTicks returns those sessions, and notes which have begun since the look
// before, and which are over.
func (w *world) lookAtTicks() (all []runner.Session, err error) {
	began := now()
	for s, err := range w.rn.Sessions(w.t.Context(), session.Filter{User: tickUser}, "parent") {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	w.sawTicks(all, began, now())
	return all, nil
}

// sawTicks notes what a look has shown that began and ended then. A session
// that no look has shown before began after the latest of those did.
func (w *world) sawTicks(all []runner.Session, began, ended instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range all {
		c := w.ticking[s.ID]
		if c == nil {
			c = &chat{id: s.ID, began: w.looked, ended: never}
			w.ticking[s.ID] = c
		}
		if isOver(s) {
			c.ended = min(c.ended, ended)
		}
	}
	w.looked = max(w.looked, began)
}

// watchTicks looks again and again, until no user sends any more. It may fail
// while things befall the engine.
func (w *world) watchTicks() {
	for ; !w.isOver(); time.Sleep(w.Lease / 2) {
		_, _ = w.lookAtTicks()
	}
}

// ticked reports whether the schedule is paused, and all that it began is over.
func (w *world) ticked() bool {
	is, err := schedule.New(w.rn).Show(w.t.Context(), tickTool, "parent")
	must(w.t, err)
	open := func(s runner.Session) bool { return s.Finish != event.FinishStop }
	return is.Paused && len(is.Due) == 0 && !slices.ContainsFunc(w.ticks(), open)
}

// firings judges the schedule: each nominal time from the first to the last one
// began one session.
func (a *audit) firings() {
	is, err := schedule.New(a.rn).Show(a.t.Context(), tickTool, "audit")
	must(a.t, err)
	all := a.ticks()
	if len(all) != is.Fired || is.Skipped+is.Failed > 0 {
		a.violation("the schedule has begun %d sessions, and tells of %+v", len(all), is)
	}
	var before time.Time
	for _, s := range all { // by id, which is by time
		_, nominal, _ := strings.Cut(s.ID, "@")
		at, err := time.Parse(time.RFC3339, nominal)
		if err != nil || !before.IsZero() && at.Sub(before) != a.every() {
			a.violation("the schedule fired for %s after %v: %v", s.ID, before, err)
		}
		before = at
		a.transcript(a.ticking[s.ID], s)
	}
	a.fired = len(all)
}
