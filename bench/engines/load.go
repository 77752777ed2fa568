package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// load is so many clients, each of which runs one cycle after the other, in a
// new session each: a message, the pause, its answer, the last word.
type load struct {
	front front
	name  string // of its sessions
	next  atomic.Int64
	done  atomic.Int64 // cycles

	// mu guards what follows.
	mu      sync.Mutex
	waiting map[string]chan news // by session
	accept  []float64            // how long answers took to be accepted, in ms
}

func newLoad(f front, name string) *load {
	return &load{front: f, name: name, waiting: map[string]chan news{}}
}

// tell takes what workers tell.
func (l *load) tell(n news) {
	l.mu.Lock()
	c := l.waiting[n.Session]
	l.mu.Unlock()
	if c == nil {
		return // it was left
	}
	select {
	case c <- n:
	default: // told twice, by a drive that took over
	}
}

// accepted returns how long answers took to be accepted since the last time.
func (l *load) accepted() []float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.accept
	l.accept = nil
	return all
}

// run keeps so many clients busy until ctx ends. What is under way then is left.
func (l *load) run(ctx context.Context, clients int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := l.cycle(ctx); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != context.Canceled && err != context.DeadlineExceeded {
		return err
	}
	return nil
}

// stuck is how long a step of a cycle may take.
const stuck = 2 * time.Minute

func (l *load) cycle(ctx context.Context) error {
	id := fmt.Sprintf("%s-%08d", l.name, l.next.Add(1))
	c := make(chan news, 2)
	l.mu.Lock()
	l.waiting[id] = c
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waiting, id)
		l.mu.Unlock()
	}()
	if err := l.front.send(ctx, id); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	paused, err := until(ctx, c, id, "pause", func(n news) bool { return n.Pause != "" })
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := l.front.answer(ctx, id, paused.Pause); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	took := time.Since(begun)
	l.mu.Lock()
	l.accept = append(l.accept, float64(took.Microseconds())/1000)
	l.mu.Unlock()
	if _, err := until(ctx, c, id, "end", func(n news) bool { return n.Pause == "" }); err != nil {
		return err
	}
	l.done.Add(1)
	return nil
}

func until(
	ctx context.Context, c <-chan news, id, what string, is func(news) bool,
) (news, error) {
	timer := time.NewTimer(stuck)
	defer timer.Stop()
	for {
		select {
		case n := <-c:
			if n.Failed != "" {
				return n, fmt.Errorf("session %s: %s", id, n.Failed)
			}
			if is(n) {
				return n, nil
			}
		case <-timer.C:
			return news{}, fmt.Errorf("session %s did not come to its %s within %v", id, what, stuck)
		case <-ctx.Done():
			return news{}, ctx.Err()
		}
	}
}
