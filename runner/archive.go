package runner

import (
	"context"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
)

// archiver removes wait handles that have outlived their retention. Each is given
// to Options.Waits.Archive first, which is code of others: so in goroutines of
// its own, of which there are a few, and what else is due waits for none of them.
// All methods may be called from any goroutine.
type archiver struct {
	rn *Runner
	// room gets a value when the archiver has begun with all that it has, without a
	// failure, and more is to be removed.
	room chan struct{}

	mu      sync.Mutex // guards the rest; held over no call
	known   map[wide.ID]bool
	waiting []wide.Due // of those known, which no goroutine has begun with
	working int        // goroutines
	left    bool       // more is to be removed at once than there was room for
}

const (
	// maxArchiving is how many handles are archived at a time.
	maxArchiving = 4
	// archiveTime is how long Archive has for one.
	archiveTime = time.Minute
	// maxToArchive bounds the handles that wait. What is behind them isn't read
	// before there is room.
	maxToArchive = 256
)

func newArchiver(rn *Runner) archiver {
	return archiver{rn: rn, known: map[wide.ID]bool{}, room: make(chan struct{}, 1)}
}

// fill reads what is to be removed while there is room, and returns when the next
// one will be.
func (a *archiver) fill(ctx context.Context) (next time.Time, err error) {
	var after []byte
	for a.takes() {
		page, err := a.rn.wide.Outlived(ctx, after)
		if err != nil {
			return next, err
		}
		for _, d := range page.Due {
			if after = d.Key; !a.add(d) {
				return next, nil
			}
		}
		if !page.More {
			return page.Next, nil
		}
	}
	return next, nil
}

// takes reports whether there is room, and otherwise notes what is left.
func (a *archiver) takes() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	room := len(a.waiting) < maxToArchive
	a.left = a.left || !room
	return room
}

// add has a handle archived and removed. It reports whether there was room.
func (a *archiver) add(d wide.Due) bool {
	a.mu.Lock()
	room, begins := len(a.waiting) < maxToArchive, false
	switch {
	case a.known[d.ID]:
		room = true
	case !room:
		a.left = true
	default:
		a.known[d.ID] = true
		a.waiting = append(a.waiting, d)
		if begins = a.working < maxArchiving; begins {
			a.working++
		}
	}
	a.mu.Unlock()
	if begins && !a.rn.drives.start(a.work) {
		a.mu.Lock()
		a.working--
		a.mu.Unlock()
	}
	return room
}

// work archives handles until none is left.
func (a *archiver) work() {
	for {
		d, ok := a.next()
		if !ok {
			return
		}
		err := a.archive(d)
		if err != nil && a.rn.closing.Err() == nil && !isOnly(err, session.ErrNewerVersion) {
			a.rn.options.Logger.Error("a wait handle could not be removed", "scope", d.ID.Scope,
				"handle", d.ID.Name, "error", err)
		}
		a.mu.Lock()
		delete(a.known, d.ID)
		if err != nil {
			a.left = false // the next round of the worker is soon enough
		}
		a.mu.Unlock()
	}
}

// next takes the next handle that waits. Without one the goroutine ends.
func (a *archiver) next() (d wide.Due, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 || a.rn.closing.Err() != nil {
		a.working--
		if a.left {
			a.left = false
			select {
			case a.room <- struct{}{}:
			default:
			}
		}
		return d, false
	}
	d, a.waiting = a.waiting[0], a.waiting[1:]
	return d, true
}

func (a *archiver) archive(d wide.Due) error {
	ctx, cancel := context.WithTimeout(a.rn.closing, archiveTime)
	defer cancel()
	return a.rn.wide.Remove(ctx, d)
}
