package runner

import (
	"context"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/wide"
)

// archiver gives wait handles that have outlived their retention to
// Options.Waits.Archive, which is code of others: in goroutines of its own, of
// which there are a few. So what else is due waits for none of them. All methods
// may be called from any goroutine.
type archiver struct {
	rn *Runner

	mu      sync.Mutex // guards the rest; held over no call
	known   map[wide.ID]bool
	waiting []wide.Due // of those known, which no goroutine has begun with
	working int        // goroutines
}

const (
	// maxArchiving is how many handles are archived at a time.
	maxArchiving = 4
	// archiveTime is how long Archive has for one.
	archiveTime = time.Minute
	// maxToArchive bounds the handles that wait. More stay due.
	maxToArchive = 1 << 16
)

// knows reports whether a handle is to be archived, or just is.
func (a *archiver) knows(id wide.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[id]
}

// add has a handle archived and removed.
func (a *archiver) add(d wide.Due) {
	a.mu.Lock()
	begins := false
	if !a.known[d.ID] && len(a.waiting) < maxToArchive {
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
}

// work archives handles until none is left.
func (a *archiver) work() {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 || a.rn.closing.Err() != nil {
			a.working--
			a.mu.Unlock()
			return
		}
		d := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		if err := a.archive(d); err != nil && a.rn.closing.Err() == nil {
			a.rn.options.Logger.Error("a wait handle could not be archived", "scope", d.ID.Scope,
				"handle", d.ID.Name, "error", err)
		}
		a.mu.Lock()
		delete(a.known, d.ID)
		a.mu.Unlock()
	}
}

func (a *archiver) archive(d wide.Due) error {
	ctx, cancel := context.WithTimeout(a.rn.closing, archiveTime)
	defer cancel()
	_, rest, err := a.rn.wide.Attend(ctx, d) // as it is now
	if err != nil || rest == nil {
		return err
	}
	return rest(ctx)
}
