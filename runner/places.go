package runner

import (
	"errors"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// places are a worker's places for the sessions that it drives at once. A drive
// that only waits for the bodies of tools gives its place back, see seat: then
// more sessions are held than there are places. It also knows which sessions the
// worker leaves alone for a while, since they could not be driven. All methods
// may be called from any goroutine.
type places struct {
	room int
	most int    // how many sessions are held at once; 0: any number
	fill func() // called when a drive has given its place back and goes on; may be nil

	mu      sync.Mutex // guards the rest; held over no call
	held    map[string]*seat
	users   map[string]int // how many sessions of each are held
	working int            // how many of them are seated
	back    turns[*seat]   // those that need theirs again
	new     bool           // the next place is for a session that isn't held yet
	backoff map[string]*backoff
	pruned  time.Time // when backoff was rid last of what is no longer due
}

// backoff keeps a session that can't be driven from being tried all the time.
type backoff struct {
	wait  time.Duration
	until time.Time
	key   string // if set, the backoff counts only while this index entry is there
	err   error  // of its last drive
}

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
)

func newPlaces(room, most int) places {
	return places{room: room, most: most,
		held: map[string]*seat{}, users: map[string]int{}, backoff: map[string]*backoff{}}
}

// take gives a session that is due a place, unless it is held, or to be left
// alone: then the seat is nil. Room is false if there is none for it.
func (p *places) take(due session.Due) (taken *seat, room bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.open(due):
		return nil, true
	case p.working >= p.room, p.most > 0 && len(p.held) >= p.most:
		return nil, false
	case len(p.back.order) > 0 && !p.new:
		return nil, false
	}
	s := &seat{places: p, user: due.User, room: make(chan struct{}, 1)}
	p.held[due.Session] = s
	p.users[due.User]++
	p.working++
	p.new = false
	return s, true
}

// hasShare reports whether as many sessions of a user are held as may be: as many
// as there are places, and beyond that no more than could still be held of
// others. So one user's slow tools leave room, and one alone has half.
func (p *places) hasShare(user string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most > 0 && p.users[user] >= max(p.room, p.most-len(p.held))
}

// grant gives a place that is free to a drive that asks for one. The place after
// it is for a session that is due, if there is one, so that neither waits for all
// of the others. It reports whether there were both.
func (p *places) grant() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, asks := p.back.first()
	if !asks || p.working >= p.room {
		return false
	}
	p.back.pop()
	s.state = seated
	p.working++
	p.new = true
	select {
	case s.room <- struct{}{}:
	default: // the drive has not looked since the last time
	}
	return true
}

// takes reports whether a session could be given a place if there were one.
func (p *places) takes(due session.Due) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open(due)
}

// open is takes. The caller holds the lock.
func (p *places) open(due session.Due) bool {
	b := p.backoff[due.Session]
	return p.held[due.Session] == nil && (b == nil || !time.Now().Before(b.until) ||
		b.key != "" && b.key != string(due.Key))
}

// backsOff is the error of a drive that doesn't begin yet, since earlier drives
// of the session died.
type backsOff struct{ until time.Time }

func (b *backsOff) Error() string { return "drives of the session died; it is tried again later" }

// free returns how many places are free.
func (p *places) free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.room-p.working)
}

// giveBack notes how a drive went, at a time of the store's clock. A session
// whose drive failed is tried again later and later. A session that another
// drive has is tried again when that drive's lease ends, or when the session is
// due by another entry; if the end isn't known, soon.
func (p *places) giveBack(due session.Due, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := due.Session
	p.end(id)
	var later *backsOff
	var busy *session.BusyError
	in := func(until time.Time) time.Time {
		return time.Now().Add(max(firstBackoff, until.Sub(now)))
	}
	switch b := p.backoff[id]; {
	case err == nil:
		delete(p.backoff, id)
	case errors.As(err, &later):
		p.backoff[id] = &backoff{wait: 2 * firstBackoff, until: in(later.until)}
	case errors.As(err, &busy) && !busy.Until.IsZero():
		until := in(busy.Until)
		p.backoff[id] = &backoff{wait: 2 * firstBackoff, until: until, key: string(due.Key)}
	case b == nil || errors.Is(err, session.ErrBusy):
		p.backoff[id] = &backoff{wait: 2 * firstBackoff, until: time.Now().Add(firstBackoff)}
	default:
		b.until = time.Now().Add(b.wait)
		b.wait = min(2*b.wait, maxBackoff)
	}
	if b := p.backoff[id]; b != nil {
		b.err = err
	}
	p.prune()
}

// end lets go of a session. The caller holds the lock.
func (p *places) end(id string) {
	s := p.held[id]
	switch {
	case s == nil:
		return
	case s.state == seated:
		p.working--
	case s.state == asking:
		p.back.drop(s.user, func(o *seat) bool { return o == s })
	}
	p.leaves(s.user)
	delete(p.held, id)
}

// leaves counts one session of a user less. The caller holds the lock.
func (p *places) leaves(user string) {
	if p.users[user]--; p.users[user] == 0 {
		delete(p.users, user)
	}
}

// failed returns the error of a session's last drive, if there was one, and
// when the session is tried again.
func (p *places) failed(id string) (until time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.backoff[id]; b != nil {
		return b.until, b.err
	}
	return time.Time{}, nil
}

// lend leaves the place of a session that goes on, and waits for a caller, to
// others. When it works again, there may be one too many for a while.
func (p *places) lend(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.held[id]; s != nil && s.state == seated {
		s.state = lent
		p.working--
	}
}

// takeBack takes the place that was lent.
func (p *places) takeBack(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.held[id]; s != nil && s.state == lent {
		s.state = seated
		p.working++
	}
}

// holds reports whether a drive of the worker has a session.
func (p *places) holds(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[id] != nil
}

// busy reports whether the worker holds any session.
func (p *places) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held) > 0
}

// soonest returns how long it is until the next session that was left alone is
// tried again, and wait at most.
func (p *places) soonest(wait time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	for _, b := range p.backoff {
		if until := time.Until(b.until); until > 0 {
			wait = min(wait, until)
		}
	}
	return wait
}

// prune forgets the sessions that are no longer due, now and then. The caller
// holds the lock.
func (p *places) prune() {
	if time.Since(p.pruned) < maxBackoff {
		return
	}
	p.pruned = time.Now()
	for id, b := range p.backoff {
		if time.Since(b.until) > maxBackoff {
			delete(p.backoff, id)
		}
	}
}
