package runner

import (
	"context"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// progressEvery is how often the progress of one call is stored at most.
const progressEvery = 250 * time.Millisecond

// reports decides when progress is stored. The first of a burst is stored at
// once, and the last when progressEvery has passed, since the last shows where
// the job stands now. At most one write of a call is under way, so that no
// write is overtaken by an older one. Begin, end, keep and close may be called
// from any goroutine.
type reports struct {
	write func(context.Context, callName, latest) error
	now   func() time.Time

	mu     sync.Mutex // guards the rest; held over no write and no clock
	calls  map[callName]*burst
	closed bool           // nothing is left for later any more
	later  sync.WaitGroup // the writes of timers
}

// callName names a call whose progress is reported.
type callName struct{ session, call string }

// latest is the progress of a call that was accepted last.
type latest struct {
	id string // the call's, or that of the pause that was named
	tool.Progress
}

// burst is what is known of one call's progress.
type burst struct {
	last    time.Time   // when one was last stored, by the store's clock
	before  time.Time   // what last was when the write began
	writing bool        // one is being stored
	next    *latest     // the newest that is not stored
	older   *latest     // what next was when the write began
	fails   int         // of the writes of next, in a row
	timer   *time.Timer // stores next; nil where next is, or where one is being stored
}

const (
	// maxReports bounds what is remembered. Beyond it, progress is stored as it
	// comes.
	maxReports = 10000
	// maxFails is how often the last of a burst is tried.
	maxFails = 5
)

// begin reports whether the caller is to store a call's progress now, and then
// to call [reports.end]. Otherwise the caller calls [reports.keep].
func (r *reports) begin(call callName) bool {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.remember(call, now)
	switch {
	case b == nil:
		return true
	case b.writing, !r.closed && b.rest(now) > 0:
		return false
	}
	b.begin(now)
	return true
}

func (b *burst) begin(now time.Time) {
	b.before, b.last, b.writing, b.older = b.last, now, true, b.next
}

// end ends a write. Unless it failed, it also counts for what was accepted
// before it began. For a call that is over nothing more is stored.
func (r *reports) end(call callName, err error) {
	now := r.now()
	r.mu.Lock()
	b := r.calls[call]
	if b == nil {
		r.mu.Unlock()
		return
	}
	b.writing = false
	switch {
	case callIsOver(err):
		b.next = nil
		delete(r.calls, call)
	case err != nil:
		b.last = b.before
	case b.next == b.older:
		b.next, b.fails = nil, 0
	}
	b.older = nil
	left := r.closed && b.next != nil
	r.schedule(call, b, now)
	r.mu.Unlock()
	if left {
		r.store(context.Background(), call)
	}
}

// callIsOver reports whether a call takes no more progress.
func callIsOver(err error) bool {
	return isAny(err, session.ErrSettled, session.ErrDeleted, session.ErrUnknownCall)
}

// keep notes the latest progress of a call, which is stored when its time has
// come.
func (r *reports) keep(call callName, p latest) {
	now := r.now()
	r.mu.Lock()
	b := r.remember(call, now)
	if b == nil {
		r.mu.Unlock()
		return
	}
	b.next, b.fails = &p, 0
	left := r.closed && !b.writing
	r.schedule(call, b, now)
	r.mu.Unlock()
	if left {
		r.store(context.Background(), call)
	}
}

// schedule sets the timer that stores a call's progress. The caller holds the
// lock.
func (r *reports) schedule(call callName, b *burst, now time.Time) {
	if b.next == nil || b.writing || b.timer != nil || r.closed {
		return
	}
	r.later.Add(1)
	b.timer = time.AfterFunc(b.rest(now)+time.Duration(b.fails)*progressEvery, func() {
		defer r.later.Done()
		r.due(call)
	})
}

// due stores a call's progress after the timer, unless the store's clock has
// not come so far.
func (r *reports) due(call callName) {
	now := r.now()
	r.mu.Lock()
	b := r.calls[call]
	if b != nil {
		b.timer = nil
	}
	if b != nil && !r.closed && b.rest(now) > 0 {
		r.schedule(call, b, now)
		b = nil
	}
	r.mu.Unlock()
	if b != nil {
		r.store(context.Background(), call)
	}
}

// store writes a call's progress, if some is not stored. If a write is under
// way, its end schedules the next one.
func (r *reports) store(ctx context.Context, call callName) {
	now := r.now()
	r.mu.Lock()
	b := r.calls[call]
	if b == nil || b.next == nil || b.writing {
		r.mu.Unlock()
		return
	}
	b.begin(now)
	p := *b.next
	r.mu.Unlock()
	err := r.write(ctx, call, p)
	r.mu.Lock()
	gone := isAny(err, session.ErrNotPaused, session.ErrUnknownPause) // the pause that it was for
	if err != nil && b.next == b.older {
		if b.fails++; gone || r.closed || b.fails == maxFails {
			b.next = nil
		}
	}
	r.mu.Unlock()
	r.end(call, err)
}

// rest returns how long it is until a call's next progress may be stored. A
// clock that was set back doesn't make it longer.
func (b *burst) rest(now time.Time) time.Duration {
	since := now.Sub(b.last)
	if since < -progressEvery {
		return 0
	}
	return progressEvery - max(since, 0)
}

// remember returns what is known of a call, or nil if there is no room for it.
// It makes room by forgetting calls whose last progress is stored and old
// enough. The caller holds the lock.
func (r *reports) remember(call callName, now time.Time) *burst {
	if b := r.calls[call]; b != nil {
		return b
	}
	if len(r.calls) >= maxReports {
		for name, b := range r.calls {
			if b.next == nil && !b.writing && b.rest(now) <= 0 {
				delete(r.calls, name)
			}
		}
		if len(r.calls) >= maxReports {
			return nil
		}
	}
	if r.calls == nil {
		r.calls = map[callName]*burst{}
	}
	b := &burst{}
	r.calls[call] = b
	return b
}

// close stores what is not stored yet, and waits for that as long as ctx lasts.
// Then no further write begins.
func (r *reports) close(ctx context.Context) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	var left []callName
	stopped := 0
	for call, b := range r.calls {
		if b.timer != nil && b.timer.Stop() {
			b.timer = nil
			stopped++
		}
		if b.next != nil {
			left = append(left, call)
		}
	}
	r.mu.Unlock()
	r.later.Add(-stopped)
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		for _, call := range left {
			if ctx.Err() != nil {
				return
			}
			r.store(ctx, call)
		}
		r.later.Wait()
	}()
	select {
	case <-stored:
	case <-ctx.Done():
	}
}
