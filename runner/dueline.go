package runner

import (
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
)

// dueLine is what a worker has found due and has no place for yet. It saves
// reading the index for each place that is free, and lets users take turns: one
// session of a user isn't behind the thousands of another one. What it holds is
// a copy of what the index had, and may be old by the time its turn comes: the
// head tells. All methods may be called from any goroutine.
type dueLine struct {
	each int // of one user, at most

	mu    sync.Mutex // guards the rest; held over calls of places
	waits turns[session.Due]
	keys  map[string]string // of the sessions in it, where they stand in the index
	cut   bool              // more is due than there was room for
}

// lineMost is how many sessions the line has room for, of all users.
const lineMost = 1 << 14

func newDueLine(each int) *dueLine {
	return &dueLine{each: each, keys: map[string]string{}}
}

// add puts a session in the line. It reports whether that is new there.
func (l *dueLine) add(due session.Due) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.keys[due.Session]; known {
		l.keys[due.Session] = string(due.Key)
		return false
	}
	if len(l.waits.of[due.User]) >= l.each || len(l.keys) >= lineMost {
		l.cut = true
		return false
	}
	l.keys[due.Session] = string(due.Key)
	l.waits.add(due.User, due)
	return true
}

// next takes a place for the session whose turn it is; nil: nothing waits, or
// there is no place. Open reports whether a session may be given one at all.
// Those that may not leave the line.
func (l *dueLine) next(p *places, open func(session string) bool) (due session.Due, s *seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for skipped := 0; s == nil; {
		var waits bool
		if due, waits = l.waits.first(); !waits {
			return due, nil
		}
		if p.hasShare(due.User) {
			if skipped++; skipped > len(l.waits.order) {
				return due, nil
			}
			l.waits.skip()
			continue
		}
		skipped = 0
		if key := l.keys[due.Session]; key != string(due.Key) {
			due.Key = []byte(key)
		}
		if open(due.Session) {
			var room bool
			if s, room = p.take(due); !room {
				return due, nil
			}
		}
		delete(l.keys, due.Session)
		l.waits.pop()
	}
	return due, s
}

// ranDry reports, once, that nothing waits, though more is due.
func (l *dueLine) ranDry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	dry := l.cut && len(l.keys) == 0
	l.cut = l.cut && !dry
	return dry
}

// isEmpty reports whether nothing waits.
func (l *dueLine) isEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys) == 0
}
