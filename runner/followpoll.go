package runner

import (
	"context"
	"sync"
	"time"
)

// looks are the sessions that are followed in this process. All methods may be
// called from any goroutine.
type looks struct {
	mu sync.Mutex // guards the rest; held over no call
	by map[string]*look
	// where several processes share the engine
	order []*look // in which they are polled, the next one first
	stop  context.CancelFunc
}

// Commits of other processes give no signal. So where several share the engine,
// one goroutine has the looks poll.
const (
	// followEvery is how often it polls a session in which something happens:
	// that is driven, or has changed within a few seconds.
	followEvery = 250 * time.Millisecond
	followBusy  = 10 * time.Second
	// followIdle is how often it polls any other one at most; followAtOnce is
	// how many of those it polls each followEvery, however many there are.
	followIdle   = time.Second
	followAtOnce = 50
)

// join returns the look of a session, until it is left.
func (ls *looks) join(rn *Runner, session string, through bool) (l *look, leave func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l = ls.by[session]; l == nil {
		l = &look{rn: rn, session: session, again: make(chan struct{}, 1)}
		feed, closeFeed := rn.live.open(session)
		ctx, cancel := context.WithCancel(rn.closing)
		l.feed, l.end = feed, func() { cancel(); closeFeed() }
		if ls.by == nil {
			ls.by = map[string]*look{}
		}
		ls.by[session] = l
		go l.run(ctx)
		if !rn.store.Exclusive() {
			ls.poll(rn.closing, l)
		}
	}
	l.followers++
	l.goesThrough(through, 1)
	return l, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		l.goesThrough(through, -1)
		if l.followers--; l.followers == 0 {
			delete(ls.by, session)
			l.end()
			if len(ls.by) == 0 && ls.stop != nil {
				ls.stop()
				ls.stop, ls.order = nil, nil
			}
		}
	}
}

func (l *look) goesThrough(through bool, more int) {
	if !through {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.through += more
}

// poll has a look polled. The caller holds the lock.
func (ls *looks) poll(closing context.Context, l *look) {
	ls.order = append(ls.order, l)
	if ls.stop == nil {
		var ctx context.Context
		ctx, ls.stop = context.WithCancel(closing)
		go ls.polls(ctx)
	}
}

func (ls *looks) polls(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, l := range ls.due(time.Now()) {
				l.poll()
			}
		case <-ctx.Done():
			return
		}
	}
}

// due returns the looks that are to be polled now. Those that rest take turns.
func (ls *looks) due(now time.Time) (due []*look) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var later, polled []*look
	idle := 0
	for _, l := range ls.order {
		if ls.by[l.session] != l { // it was left
			continue
		}
		isIdle, since := l.idle(now)
		switch {
		case isIdle && (idle == followAtOnce || since < followIdle):
			later = append(later, l)
			continue
		case isIdle:
			idle++
		}
		polled, due = append(polled, l), append(due, l)
		l.notePoll(now)
	}
	ls.order = append(later, polled...)
	return due
}

// idle reports whether nothing happens in the session, as far as it was seen,
// and how long ago it was polled.
func (l *look) idle(now time.Time) (idle bool, since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.view == nil || l.view.driven || l.view.step.Working() ||
		now.Sub(l.active) < followBusy
	return !busy, now.Sub(l.polled)
}

func (l *look) notePoll(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled = now
}
