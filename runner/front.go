package runner

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// fronts are where a worker begins to read the index of each agent, over an
// engine that keeps deleted keys for a while. Only the goroutine of Work uses
// them.
type fronts struct {
	of    map[string]session.Front
	whole map[string]wholeLook // at all of it
	soon  map[string]bool      // the next one comes as soon as it may
	wall  time.Time            // the store's clock when that was looked at last
	mono  time.Time            // monotonic: when that was
}

// beginEvery is how often a worker reads an index from its beginning, where it
// otherwise begins at a front: what was put before that, by a commit that was
// long under way, or by a clock that is behind, waits so long at most, unless
// such a look is slow.
const beginEvery = 10 * time.Second

// begin returns where to begin: at the beginning if it is time for that, or the
// store's clock was set.
func (f *fronts) begin(agent string, wall time.Time) session.Front {
	now := time.Now()
	if (wall.Sub(f.wall) - now.Sub(f.mono)).Abs() > aStep {
		clear(f.whole)
	}
	f.wall, f.mono = wall, now
	every := beginEvery
	if f.soon[agent] {
		every = 0
	}
	if !f.whole[agent].isDue(now, every) {
		return f.of[agent]
	}
	return session.Front{}
}

// late notes that something was put before the fronts of all agents.
func (w *worker) late() {
	for agent := range w.rn.agents {
		w.fronts.soon[agent] = true
	}
}

// front takes what is due in the index of an agent from its front on. A look at
// all of it may be too slow for the engine's bound. It is then tried again later,
// and what has become due since is found all the same.
func (w *worker) front(ctx context.Context, agent string) (session.DuePage, error) {
	f, store := &w.fronts, w.rn.store
	from, begun := f.begin(agent, store.Now()), time.Now()
	p, err := store.DueFrom(ctx, agent, from, w.o.Poll)
	if from.IsBeginning() {
		f.whole[agent] = wholeLook{at: begun, took: time.Since(begun)}
		f.soon[agent] = err != nil
	}
	if err != nil {
		if f.of[agent].IsBeginning() {
			f.of[agent] = store.LatestFront(agent)
		}
		return p, err
	}
	f.of[agent] = p.Then
	w.take(ctx, agent, p.Due)
	return p, nil
}

// take takes in sessions that are due. Workers that share a store begin at
// different places, so that they don't all run for the same session.
func (w *worker) take(ctx context.Context, agent string, due []session.Due) {
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for _, e := range due {
		if session.IsChild(e.Session) || w.share.isMine(agent, e.Session) {
			w.found(ctx, e)
		} else {
			w.lend(e)
		}
	}
}
