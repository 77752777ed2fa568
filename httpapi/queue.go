package httpapi

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"

	"github.com/fermata-ai/fermata/event"
)

// frame is one server-sent event. Its data is one line.
type frame struct {
	id   string // empty: the client's last one stays
	data []byte
}

// format turns what a stream shows into server-sent events. One belongs to one
// stream, and to the goroutine that ranges over the stream's events.
type format interface {
	// frames returns what a client is sent for an event; none: nothing.
	frames(event.Event) ([]frame, error)
	// fails returns what a client is sent for an error. It keeps nothing, and may
	// be called from another goroutine.
	fails(error) []frame
	// closes returns what a client is sent last, where the handler is to stop.
	closes() []frame
}

// queue is what waits for one client, between the goroutine that ranges over
// the events and the one that writes. All methods may be called from any
// goroutine.
type queue struct {
	more chan struct{} // gets a value when there is something to take

	mu    sync.Mutex // guards the rest
	items []item
	size  int // bytes of items
	over  bool
	left  bool          // the client is gone: nothing is kept
	room  chan struct{} // closed, and made anew, when items are taken, or the client leaves
}

// item is a frame, or an error.
type item struct {
	frame
	err error
}

// queued is how much waits for a client, in bytes, before what it follows waits,
// too, or, of a run, the client is dropped. One frame may be larger.
const queued = 1 << 20

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), room: make(chan struct{})}
}

// put adds an item, and reports whether it fits, and whether there is a client.
func (q *queue) put(i item) (fits, there bool, room <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.left:
		return true, false, nil
	case q.size > 0 && q.size+len(i.data) > queued:
		return false, true, q.room
	}
	q.items, q.size = append(q.items, i), q.size+len(i.data)
	q.wake()
	return true, true, nil
}

// take returns what there is, and whether that is all.
func (q *queue) take() (items []item, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items = q.items
	q.items, q.size = nil, 0
	q.makeRoom()
	return items, q.over
}

// finish notes that nothing comes any more.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	q.wake()
}

// leave notes that the client is gone.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.size, q.left = nil, 0, true
	q.makeRoom()
}

func (q *queue) makeRoom() {
	close(q.room)
	q.room = make(chan struct{})
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// watch ranges over what is followed, as fast as the client reads.
func (q *queue) watch(ctx context.Context, f format, events iter.Seq2[event.Event, error]) {
	defer q.finish()
	for i := range items(f, events) {
		if !q.offer(ctx, i) {
			return
		}
	}
}

// offer adds an item once it fits, and reports whether it has: the client may be
// gone.
func (q *queue) offer(ctx context.Context, i item) bool {
	for {
		fits, there, room := q.put(i)
		if fits || !there {
			return there
		}
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

// drive ranges over a run to its end, also if no client reads. A client that
// reads too slowly is dropped.
func (q *queue) drive(f format, events iter.Seq2[event.Event, error]) {
	defer q.finish()
	for i := range items(f, events) {
		if fits, _, _ := q.put(i); !fits {
			q.finish()
			q.drop()
		}
	}
}

// drop keeps nothing more, and leaves what waits.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = true
}

// items are the frames of events. An event that has none in the format is an
// error in its place.
func items(f format, events iter.Seq2[event.Event, error]) iter.Seq[item] {
	return func(yield func(item) bool) {
		for ev, err := range events {
			var frames []frame
			if err == nil {
				frames, err = framesOf(f, ev)
			}
			if err != nil && !yield(item{err: err}) {
				return
			}
			for _, one := range frames {
				if !yield(item{frame: one}) {
					return
				}
			}
		}
	}
}

// framesOf returns the frames of an event. What goes wrong in a format must not
// end the process, or the run that it is about.
func framesOf(f format, ev event.Event) (frames []frame, err error) {
	defer func() {
		if p := recover(); p != nil {
			frames, err = nil, fmt.Errorf("httpapi: %T can't be shown: %v\n%s", ev, p, debug.Stack())
		}
	}()
	return f.frames(ev)
}
