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

// One schedule ticks while things befall the fleet, and all workers carry it on.
// Each of its nominal times begins one session, with one call.

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
func (w *world) ticks() (all []runner.Session) {
	for s, err := range w.rn.Sessions(w.t.Context(), session.Filter{User: tickUser}, "parent") {
		must(w.t, err)
		all = append(all, s)
	}
	return all
}

// ticked reports whether the schedule is paused, and all that it began is over.
func (w *world) ticked() bool {
	is, err := schedule.New(w.rn).Show(w.t.Context(), tickTool, "parent")
	must(w.t, err)
	return is.Paused && len(is.Due) == 0 && !slices.ContainsFunc(w.ticks(), func(s runner.Session) bool {
		return s.Finish != event.FinishStop
	})
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
		a.transcript(&chat{id: s.ID, began: 0, ended: never}, s)
	}
	a.fired = len(all)
}
