package runner

import (
	"context"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// progressEvery is how often the progress of one call is stored at most.
const progressEvery = 250 * time.Millisecond

// reports decides when progress is stored. The first of a burst is stored at
// once and the last when progressEvery has passed: the last is what counts, for
// it says where the job stands now. At most one write of a call is under way,
// so that none is overtaken by an older one.
type reports struct {
	write func(callName, tool.Progress) (refused bool)
	now   func() time.Time

	mu     sync.Mutex
	calls  map[callName]*burst
	closed bool           // nothing is left for later any more
	later  sync.WaitGroup // the writes of timers
}

// callName names a call whose progress is reported.
type callName struct{ session, call string }

// burst is what is known of one call's progress.
type burst struct {
	last    time.Time      // when one was last stored, by the store's clock
	writing bool           // one is being stored
	next    *tool.Progress // the latest that is not stored
	timer   *time.Timer    // stores next; nil where next is, or where one is being stored
}

// maxReports bounds what is remembered. Beyond it, progress is stored as it
// comes.
const maxReports = 10000

// begin reports whether a call's progress is to be stored now, by the caller,
// who ends that with [reports.end]. Otherwise it is for [reports.keep].
func (r *reports) begin(call callName) (now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.remember(call)
	switch {
	case b == nil:
		return true
	case !r.closed && (b.writing || r.rest(b) > 0):
		return false
	}
	b.next, b.last, b.writing = nil, r.now(), true
	return true
}

// end ends a write. A call whose progress is refused has no more of it.
func (r *reports) end(call callName, refused bool) {
	r.mu.Lock()
	b := r.calls[call]
	if b == nil {
		r.mu.Unlock()
		return
	}
	if refused {
		b.next = nil
		delete(r.calls, call)
	}
	b.writing = false
	left := r.closed && b.next != nil
	r.schedule(call, b)
	r.mu.Unlock()
	if left {
		r.store(call, true)
	}
}

// keep has the latest progress of a call stored as soon as its time has come.
func (r *reports) keep(call callName, p tool.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.remember(call); b != nil && !r.closed {
		b.next = &p
		r.schedule(call, b)
	}
}

// schedule has what is left of a call's progress stored later.
func (r *reports) schedule(call callName, b *burst) {
	if b.next == nil || b.writing || b.timer != nil || r.closed {
		return
	}
	r.later.Add(1)
	b.timer = time.AfterFunc(r.rest(b), func() {
		defer r.later.Done()
		r.store(call, false)
	})
}

// store writes what is left of a call's progress, if anything is. Unless that
// is to be now, it waits until the store's clock, too, has come so far.
func (r *reports) store(call callName, now bool) {
	r.mu.Lock()
	b := r.calls[call]
	if b == nil {
		r.mu.Unlock()
		return
	}
	b.timer = nil
	if b.next == nil || b.writing || !now && !r.closed && r.rest(b) > 0 {
		r.schedule(call, b) // the write that is under way does so at its end
		r.mu.Unlock()
		return
	}
	p := *b.next
	b.next, b.last, b.writing = nil, r.now(), true
	r.mu.Unlock()
	r.end(call, r.write(call, p))
}

// rest is how long until the call's next progress may be stored. A clock that
// was set back doesn't make it longer.
func (r *reports) rest(b *burst) time.Duration {
	since := r.now().Sub(b.last)
	if since < 0 {
		return 0
	}
	return progressEvery - since
}

// remember returns what is known of a call. It makes room, if need be, by
// forgetting calls whose last progress is stored and old enough; nil: there is
// none.
func (r *reports) remember(call callName) *burst {
	if b := r.calls[call]; b != nil {
		return b
	}
	if len(r.calls) >= maxReports {
		for name, b := range r.calls {
			if b.next == nil && !b.writing && r.rest(b) <= 0 {
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

// close stores what is left, and waits for it as long as ctx lasts.
func (r *reports) close(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	var left []callName
	for call, b := range r.calls {
		if b.timer != nil && b.timer.Stop() {
			left = append(left, call)
		}
	}
	r.mu.Unlock()
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		for _, call := range left {
			r.store(call, true)
			r.later.Done()
		}
		r.later.Wait()
	}()
	select {
	case <-stored:
	case <-ctx.Done():
	}
}
