package runner

import (
	"context"
	"time"
)

// How long sessions may be due under an agent that a worker doesn't have before
// it says so, and how often it does: another worker may have that agent.
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
		return // round says so
	}
	for name, since := range due {
		if w.rn.agents[name] != nil || w.rn.store.Now().Sub(since) < strangeAfter || now.Before(w.warned[name].Add(strangeEvery)) {
			continue
		}
		w.warned[name] = now
		w.rn.options.Logger.Warn("sessions are due whose agent this worker doesn't have", "agent", name, "since", since)
	}
}
