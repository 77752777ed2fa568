package session

import (
	"context"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Where several processes share an engine, a drive doesn't hear what another
// process commits to its session: an input for a body that runs, say, or that
// it is to end. Each process has a bell. Its drives write the bell's id into
// the heads that they hold. A commit of another process to such a head rings
// it: it writes an entry under that id. So a process looks at one place for all
// that it drives, and not at each of its sessions.
//
// The drive's own next commit, a renewal at the latest, takes the entry away,
// and so does the drive that takes the session over. Neither the entry nor its
// end costs a commit.
//
// Where one process has the engine, all commits are heard, and there are no
// bells.

// bellEvery is how often a process that drives something looks at its bell.
const bellEvery = time.Second

// bell is that of one Store. All methods may be called from any goroutine.
type bell struct {
	id string // names it among those of all processes

	mu        sync.Mutex // guards the rest; held over no call
	listeners int
	stop      context.CancelFunc // ends the looks, while there are listeners
}

func newBell() bell {
	id := newCommitID()
	return bell{id: string(id[:])}
}

func bellKey(bell, session string) []byte { return kvstore.Key("B", bell, session) }

// ring keeps the entry of a head. The commit of another than the driver's
// process makes it, and the driver's takes it away.
func (tx *Tx) ring(s *Store) {
	own := tx.beside && tx.Deleted.IsZero()
	switch {
	case own && (!tx.Held || tx.Bell == "" || tx.Bell == s.bell.id):
	case own:
		tx.put(bellKey(tx.Bell, tx.ID), nil)
		tx.Rung = true
	default:
		if tx.Rung {
			tx.delete(bellKey(tx.Bell, tx.ID))
		}
		tx.Bell, tx.Rung = "", false
		if tx.Held && !s.exclusive {
			tx.Bell = s.bell.id
		}
	}
}

// rang returns the bell that the commit rings; empty: none.
func (tx *Tx) rang() string {
	if tx.beside && tx.Rung {
		return tx.Bell
	}
	return ""
}

// Listen has this process look at its bell until stop. A session of which the
// entry is new gets the signal of Watch and of WatchAll. However many listen,
// there is one look each second, and one when the engine carries the signal
// that it was rung. It does nothing where one process has the engine.
func (s *Store) Listen() (stop func()) {
	if s.exclusive {
		return func() {}
	}
	b := &s.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners++; b.listeners == 1 {
		var ctx context.Context
		ctx, b.stop = context.WithCancel(context.Background())
		go s.listen(ctx)
	}
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.listeners--; b.listeners == 0 {
			b.stop()
		}
	})
}

// listen looks until ctx ends.
func (s *Store) listen(ctx context.Context) {
	look := time.NewTicker(bellEvery)
	defer look.Stop()
	rung, stop := s.listenFor(bellTopic(s.bell.id))
	defer stop()
	var seen map[string]kvstore.Revision
	for {
		select {
		case <-look.C:
			seen = s.heed(ctx, seen)
		case <-rung:
			seen = s.heed(ctx, seen)
		case <-ctx.Done():
			return
		}
	}
}

// heed signals the sessions for which the bell was rung since the last look,
// and returns what it has seen. If the engine doesn't answer, the next look
// tries again.
func (s *Store) heed(
	ctx context.Context, before map[string]kvstore.Revision,
) (seen map[string]kvstore.Revision) {
	seen = map[string]kvstore.Revision{}
	for e, err := range s.scan(ctx, kvstore.Key("B", s.bell.id)) {
		if err != nil {
			return before
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 3 {
			continue
		}
		id := parts[2]
		if seen[id] = e.Revision; before[id] != e.Revision {
			s.local.Signal(topic(id))
			s.local.Signal(followTopic(id))
		}
	}
	return seen
}
