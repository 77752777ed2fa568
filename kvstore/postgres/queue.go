package postgres

import (
	"sync"

	"github.com/fermata-ai/fermata/kvstore"
)

// A group is bounded, so that a flood of large batches neither fills the memory
// nor keeps the first of them waiting: bytes, and requests.
const (
	maxGroupSize = 2 << 20
	maxGroup     = 128
)

// queue is where requests wait for a transaction. There are so many writers at
// most, each a goroutine that takes groups until none waits. So a caller that
// comes when few do has a transaction to itself at once, and many share theirs;
// there is no timer.
//
// Requests that have a key in common are never under way at once: the second
// would only wait for the first one's lock.
type queue struct {
	commit func([]*request) // carries out a group, and answers each request
	limit  int              // of writers

	mu      sync.Mutex
	waiting []*request
	busy    map[string]struct{} // keys of requests that are under way
	writers int
	alone   int // goroutines of requests that wait for locks
	closed  bool
	idle    sync.Cond // on mu: no goroutine is left
}

func (q *queue) init(limit int, commit func([]*request)) {
	q.limit, q.commit = limit, commit
	q.idle.L = &q.mu
	q.busy = map[string]struct{}{}
}

func (q *queue) push(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return kvstore.ErrClosed
	}
	q.waiting = append(q.waiting, r)
	if q.writers < q.limit {
		q.writers++
		go q.write()
	}
	return nil
}

// write carries out groups until no request waits that may go.
func (q *queue) write() {
	for group := q.take(nil); group != nil; group = q.take(group) {
		q.commit(group)
	}
}

// take ends a writer's last group, and returns its next; nil ends the writer.
func (q *queue) take(last []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range last {
		if !r.alone { // else its own goroutine has it
			q.free(r)
		}
	}
	var group []*request
	size, rest := 0, q.waiting[:0]
	passed := map[string]struct{}{} // keys of requests that stay: none overtakes them
	for i, r := range q.waiting {
		if len(group) == maxGroup || len(group) > 0 && size+r.size > maxGroupSize {
			rest = append(rest, q.waiting[i:]...)
			break
		}
		switch {
		case r.state.Load() == withdrawn:
		case named(q.busy, r.keys) || named(passed, r.keys):
			rest = append(rest, r)
			add(passed, r.keys)
		case r.claim():
			group = append(group, r)
			size += r.size
			add(q.busy, r.keys)
		}
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	if group == nil {
		q.writers--
		q.ended()
	}
	return group
}

// goAlone carries out a request, which is under way, outside of the writers: it
// may have to wait for another transaction, and they have not.
func (q *queue) goAlone(r *request) {
	q.mu.Lock()
	q.alone++
	r.alone = true
	q.mu.Unlock()
	go func() {
		q.commit([]*request{r})
		q.mu.Lock()
		defer q.mu.Unlock()
		q.free(r)
		q.alone--
		q.ended()
		if len(q.waiting) > 0 && q.writers < q.limit {
			q.writers++
			go q.write()
		}
	}()
}

// free ends a request's hold of its keys; the caller holds mu.
func (q *queue) free(r *request) {
	for _, key := range r.keys {
		delete(q.busy, key)
	}
}

// ended tells close that a goroutine has ended; the caller holds mu.
func (q *queue) ended() {
	if q.writers+q.alone == 0 {
		q.idle.Broadcast()
	}
}

// close refuses further requests, and waits for those that are there.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.writers+q.alone > 0 || len(q.waiting) > 0 {
		q.idle.Wait()
	}
}

func named(set map[string]struct{}, keys []string) bool {
	for _, key := range keys {
		if _, ok := set[key]; ok {
			return true
		}
	}
	return false
}

func add(set map[string]struct{}, keys []string) {
	for _, key := range keys {
		set[key] = struct{}{}
	}
}
