package bolt

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fermata-ai/fermata/kvstore"
)

// A group is bounded, so that a flood of large batches neither fills the memory
// nor keeps the first of them waiting: bytes, and requests.
const (
	maxGroupSize = 8 << 20
	maxGroup     = 1024
)

// queue is where requests wait for a commit. One of their callers leads at a
// time: it takes a group from the front, its own request first, commits it, and
// hands over to the caller at the front then. There is no goroutine for it: to
// hop to one and back makes two threads wake each other, which was a tenth of a
// commit where we measured it, and a lone writer would pay it for nothing.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	led     bool        // a caller leads; if none does, none waits
	closed  atomic.Bool // set under mu
	idle    sync.Cond   // on mu: not led

	group []*request // the leader's: the one it took
	last  int        // the leader's: how many it, or its predecessor, took
}

func (q *queue) init() { q.idle.L = &q.mu }

// push adds a request. If no caller leads, its own does from now on.
func (q *queue) push(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed.Load() {
		return kvstore.ErrClosed
	}
	if !q.led {
		q.led = true
		r.state.Store(leading)
	}
	q.waiting = append(q.waiting, r)
	return nil
}

// take returns the leader's group, in the order of arrival, and claims it. It
// is good until handOver.
func (q *queue) take() []*request {
	q.gather()
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for ; n < len(q.waiting) && len(q.group) < maxGroup; n++ {
		r := q.waiting[n]
		if n > 0 && size+r.size > maxGroupSize {
			break
		}
		if r.state.Load() == leading || r.claim() {
			q.group = append(q.group, r)
			size += r.size
		}
	}
	q.drop(n)
	q.last = len(q.group)
	return q.group
}

// gather lets those who were answered a moment ago come back before the next
// group is closed: without it, the first of them would have a commit to itself,
// and all others miss it. There is no timer: it goes on while others are ready
// to run and make the queue grow. After a group of one there is no caller to
// wait for.
func (q *queue) gather() {
	if q.last < 2 {
		return
	}
	for n := q.length(); n < q.last; {
		runtime.Gosched()
		now := q.length()
		if now == n {
			return
		}
		n = now
	}
}

// handOver ends a lead.
func (q *queue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.group) // a queue at rest keeps no caller's values
	q.group = q.group[:0]
	n := 0
	for n < len(q.waiting) && !q.waiting[n].choose() {
		n++ // withdrawn
	}
	q.drop(n)
	if len(q.waiting) == 0 {
		q.led = false
		q.idle.Broadcast()
	}
}

// close refuses further requests, and waits for those that are there.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed.Store(true)
	for q.led {
		q.idle.Wait()
	}
}

func (q *queue) drop(n int) {
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}
