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
	late  map[string]bool      // something was put before the front
	wall  time.Time            // the store's clock when that was looked at last
	mono  time.Time            // monotonic: when that was
}

// beginEvery is how often a worker reads an index from its beginning, where it
// otherwise begins at a front: what was put before that, by a commit that was
// long under way, or by a clock that is behind, waits so long at most, unless
// such a look is slow.
const beginEvery = 10 * time.Second

// begin returns where to begin: at the beginning if that is long ago, or the
// store's clock was set.
func (f *fronts) begin(agent string, wall time.Time) session.Front {
	now := time.Now()
	if (wall.Sub(f.wall) - now.Sub(f.mono)).Abs() > aStep {
		clear(f.whole)
	}
	f.wall, f.mono = wall, now
	every := beginEvery
	if f.late[agent] {
		every = 0
	}
	if !f.whole[agent].isDue(now, every) {
		return f.of[agent]
	}
	delete(f.late, agent)
	f.whole[agent] = wholeLook{at: now}
	return session.Front{}
}

// late notes that something was put before the fronts of all agents. The next
// look is at all of an index then, unless such looks are slow.
func (w *worker) late() {
	for agent := range w.rn.agents {
		w.fronts.late[agent] = true
	}
}

// front takes what is due in the index of an agent from its front on.
func (w *worker) front(ctx context.Context, agent string) (session.DuePage, error) {
	f := &w.fronts
	from := f.begin(agent, w.rn.store.Now())
	begun := time.Now()
	p, err := w.rn.store.DueFrom(ctx, agent, from, w.o.Poll)
	if err != nil {
		delete(f.whole, agent)
		return p, err
	}
	if all := f.whole[agent]; from.IsBeginning() {
		all.took = time.Since(begun)
		f.whole[agent] = all
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
