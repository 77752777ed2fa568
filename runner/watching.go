package runner

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// watching is when a worker looks at the sessions that are due by other
// processes' clocks, or by a clock that has been set since. Only the goroutine
// of Work uses it.
type watching struct {
	last wholeLook
	next time.Time // monotonic: when the first session that it saw will be due, or zero
	wall time.Time // the store's clock in the last round
	mono time.Time // monotonic: when that was
}

// aStep is by how much the store's clock must differ from the monotonic one,
// since the last round, to have been set.
const aStep = time.Second

// due reports whether it is time to look: what was seen is due now, a third of
// a lease has passed, or the clock was set. After a slow look it is later.
func (v *watching) due(wall time.Time, every time.Duration) bool {
	now := time.Now()
	stepped := (wall.Sub(v.wall) - now.Sub(v.mono)).Abs() > aStep
	v.wall, v.mono = wall, now
	isDue := !v.next.IsZero() && !now.Before(v.next)
	return stepped || isDue || v.last.isDue(now, every)
}

// watched looks for what is due by other processes' clocks, and returns when the
// next session will be due. It looks only now and then: the cost of a look grows
// with the sessions that are driven, or wait for their models.
func (w *worker) watched(ctx context.Context) (next time.Time, err error) {
	store, v := w.rn.store, &w.watching
	wall := store.Now()
	if !v.due(wall, store.LeaseLength()/3) {
		if !v.next.IsZero() {
			next = wall.Add(time.Until(v.next))
		}
		return next, nil
	}
	v.last, v.next = wholeLook{at: time.Now()}, time.Time{}
	next, err = w.allWatched(ctx)
	v.last.took = time.Since(v.last.at)
	if err != nil || next.IsZero() {
		return next, err
	}
	v.next = v.last.at.Add(next.Sub(wall))
	if soon := v.last.next(0); v.next.Before(soon) {
		v.next, next = soon, wall.Add(soon.Sub(v.last.at))
	}
	return next, nil
}

// allWatched takes in what is due of all that is watched, and returns when the
// next session will be.
func (w *worker) allWatched(ctx context.Context) (next time.Time, err error) {
	for name := range w.rn.agents {
		due, at, err := w.rn.store.Watched(ctx, name)
		if err != nil {
			return next, err
		}
		for _, e := range due {
			w.found(ctx, e)
		}
		next = sooner(next, at)
	}
	return next, nil
}

// How long sessions may be due under an agent that a worker doesn't have before
// the worker warns, and how often it warns. Another worker may have that agent.
const (
	strangeAfter = time.Minute
	strangeEvery = time.Hour
)

// strangers warns of agents that this runner doesn't have and under which
// sessions are due: one was renamed, or no worker runs for it.
func (w *worker) strangers(ctx context.Context) {
	now := time.Now()
	if now.Before(w.lookedAt.Add(strangeAfter)) {
		return
	}
	w.lookedAt = now
	due, err := w.rn.store.DueAgents(ctx)
	if err != nil {
		return // round returns the error of such a store
	}
	for name, since := range due {
		w.warn(now, name, since)
	}
}

// lacks is strangers for a worker of one session, and for what is below that.
func (w *worker) lacks(ctx context.Context, st *session.State) error {
	now := time.Now()
	if now.Before(w.lookedAt.Add(strangeAfter)) {
		return nil
	}
	w.lookedAt = now
	all, err := w.rn.lacking(ctx, st)
	for _, l := range all {
		w.warn(now, l.Agent, l.Since)
	}
	return err
}

// warn warns of an agent, unless it was due just now, or warned of.
func (w *worker) warn(now time.Time, agent string, since time.Time) {
	if w.rn.agents[agent] != nil || w.rn.store.Now().Sub(since) < strangeAfter ||
		now.Before(w.warned[agent].Add(strangeEvery)) {
		return
	}
	w.warned[agent] = now
	w.rn.options.Logger.Warn("sessions are due whose agent this worker doesn't have",
		"agent", agent, "since", since)
}
