package runner

import (
	"context"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/xid"

	"github.com/fermata-ai/fermata/internal/session"
)

// share is which sessions a worker looks after, where workers of several
// processes share an engine. It begins what is due in those at once. What
// others look after it takes when that was due for a while and it has nothing
// else to do: the other worker has too much to do, or has died.
//
// The goroutine of keepShare finds out who else there is. isMine may be called
// from any goroutine.
type share struct {
	id     string
	agents []string
	known  map[string]sighted // of the goroutine that divides

	mu   sync.Mutex // guards the rest; held over no call
	mine map[string]*[session.Shards]bool
	stop func() // ends the watch of the shards
}

// sighted is another worker, and when its entry was first seen as it is.
type sighted struct {
	session.Worker
	since time.Time // monotonic
}

const (
	shareEvery = 20 * time.Second // how often a worker writes its entry
	// A worker whose entry hasn't changed for so long, by the monotonic clock of
	// who looks, has died. Its entry is then removed.
	shareDead = 3 * shareEvery
	// lendAfter is how long a session of another worker's is due before one that
	// has nothing to do takes it: by the clock of the process that made it due, or
	// since this worker has seen it. That clock may be minutes ahead.
	lendAfter = 2 * time.Second
)

func newShare(rn *Runner) *share {
	return &share{id: xid.New().String(), agents: slices.Sorted(maps.Keys(rn.agents)),
		known: map[string]sighted{}}
}

// isMine reports whether the worker looks after a session, as long as it knows
// of no other worker that does.
func (s *share) isMine(agent, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.mine[agent]
	return mine == nil || mine[session.Shard(id)]
}

// join makes the worker known to others, and finds out which sessions are its
// own, before its first round. From then on it does so until ctx ends, in a
// goroutine of its own. It takes all for its own until it knows better.
func (w *worker) join(ctx context.Context) {
	store := w.rn.store
	if store.Exclusive() || w.o.Session != "" {
		return
	}
	changed, stop := store.WatchWorkers()
	w.share.watch(store, func(int) bool { return true })
	w.note(ctx)
	store.SignalWorkers()
	w.drives.Go(func() {
		defer stop()
		w.keepShare(ctx, changed)
		w.share.watch(store, nil)
		if store.ForgetWorker(context.WithoutCancel(ctx), w.share.id) == nil {
			store.SignalWorkers()
		}
	})
}

func (w *worker) keepShare(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	for {
		select {
		case <-changed:
			w.divide(ctx)
		case <-tick.C:
			w.note(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// note writes the worker's entry, and looks at those of others. If it can't be
// written, the next one is soon enough.
func (w *worker) note(ctx context.Context) {
	_ = w.rn.store.NoteWorker(ctx, w.share.id, w.share.agents)
	w.divide(ctx)
}

// divide looks who else there is, and what is the worker's then. If that can't
// be read, all stays as it is.
func (w *worker) divide(ctx context.Context) {
	s, store := w.share, w.rn.store
	all, err := store.Workers(ctx)
	if err != nil {
		return
	}
	now, known := time.Now(), map[string]sighted{}
	for _, other := range all {
		is := sighted{other, now}
		if was := s.known[other.ID]; was.Beat == other.Beat && !was.since.IsZero() {
			is.since = was.since
		}
		if other.ID != s.id && now.Sub(is.since) >= shareDead {
			_ = store.ForgetWorker(ctx, other.ID)
			continue
		}
		known[other.ID] = is
	}
	s.known = known
	mine := map[string]*[session.Shards]bool{}
	for _, agent := range s.agents {
		mine[agent] = s.shards(agent)
	}
	s.mu.Lock()
	same := maps.EqualFunc(s.mine, mine, func(a, b *[session.Shards]bool) bool { return *a == *b })
	s.mine = mine
	s.mu.Unlock()
	if !same {
		s.watch(store, func(shard int) bool {
			return slices.ContainsFunc(s.agents, func(a string) bool { return mine[a][shard] })
		})
		w.look()
	}
}

// shards returns which shards of an agent's sessions are this worker's: those
// for which it comes first, by a hash of worker and shard, among the workers
// that have the agent. So a worker that comes or goes moves its own shards only.
func (s *share) shards(agent string) *[session.Shards]bool {
	var mine [session.Shards]bool
	for shard := range mine {
		best, first := claim(s.id, shard), s.id
		for id, other := range s.known {
			if !slices.Contains(other.Agents, agent) {
				continue
			}
			if its := claim(id, shard); its > best || its == best && id > first {
				best, first = its, id
			}
		}
		mine[shard] = first == s.id
	}
	return &mine
}

func claim(worker string, shard int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(worker))
	h.Write([]byte{byte(shard)})
	// The last bytes change little in the upper bits of this hash, by which the
	// weights are compared.
	x := h.Sum64()
	x = (x ^ x>>31) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// watch has the worker woken when sessions of these shards become due.
func (s *share) watch(store *session.Store, of func(shard int) bool) {
	var shards []int
	for shard := range session.Shards {
		if of != nil && of(shard) {
			shards = append(shards, shard)
		}
	}
	stop := store.WatchShards(shards)
	s.mu.Lock()
	stop, s.stop = s.stop, stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// foreign is what is due and other workers look after, as a worker comes across
// it in a round.
type foreign struct {
	late []session.Due        // it was due for a while
	last map[string]time.Time // by key of the index: when it was first seen, as of the last round
	now  map[string]time.Time // the same, of the round that is going on
}

// lend notes a session that is due and that another worker looks after.
func (w *worker) lend(due session.Due) {
	f := &w.foreign
	since, known := f.last[string(due.Key)]
	if !known {
		since = time.Now()
	}
	if known || len(f.now) < lineEach {
		if f.now == nil {
			f.now = map[string]time.Time{}
		}
		f.now[string(due.Key)] = since
	}
	late := time.Since(since) >= lendAfter || w.rn.store.Now().Sub(due.Since) >= lendAfter
	if late && len(f.late) < lineEach {
		f.late = append(f.late, due)
	}
}

// borrow takes, of the sessions that others look after, as many as there are
// places, if the worker has nothing else to do. Which ones is left to chance:
// other workers may be about to do the same.
func (w *worker) borrow(ctx context.Context) {
	late := w.foreign.late
	w.foreign = foreign{last: w.foreign.now}
	if !w.line.isEmpty() {
		return
	}
	rand.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	for _, due := range late[:min(len(late), w.places.free())] {
		w.found(ctx, due)
	}
}
