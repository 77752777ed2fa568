package runner

import (
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/batch"
)

// watched is what a drive waits for beside the end of an attempt, which ends
// every wait. A nil channel is not waited for.
type watched struct {
	handed   <-chan batch.Handed   // attempts whose outcome this goroutine commits
	entered  <-chan struct{}       // an attempt has entered a body, which is shown
	freed    <-chan struct{}       // a place at a shared limit may be free
	changed  <-chan struct{}       // others have committed
	due      <-chan time.Time      // it is time to look, though no signal has come
	progress <-chan event.Progress // which is shown; the wait goes on
	nested   *ear                  // what happens below the session, which hear is told
	hear     func(event.Event) bool
	room     <-chan struct{}  // the drive has been given a place
	told     <-chan struct{}  // the worker, or the runner, ends
	overdue  <-chan time.Time // bodies should have ended by that
	over     <-chan struct{}  // the drive must take no further step
}

// woke is how a wait ended.
type woke int

const (
	wokeEnded woke = iota // an attempt is over, and was taken in; or a place is free
	wokeNews              // there may be something to do
	wokeSeated
	wokeTold
	wokeOver
	wokeLeft // the caller has left
)

// wait is the one place where a drive waits: in its loop, and in drain, once
// the caller has left. Show shows entries of bodies, and progress.
func (cr *crew) wait(w *watched, show func(event.Event) bool) woke {
	for {
		select {
		case h := <-w.handed:
			h.Rest()
			cr.ended(h.Name)
			return wokeEnded
		case call := <-cr.batch.Done():
			cr.ended(call)
			return wokeEnded
		case <-w.entered:
			if !cr.showBegun(show) {
				return wokeLeft
			}
		case <-w.freed:
			return wokeEnded
		case <-w.changed:
			return wokeNews
		case <-w.due:
			return wokeNews
		case p := <-w.progress:
			if !cr.showBegun(show) || !show(p) {
				return wokeLeft
			}
		case <-w.nested.signal():
			for _, ev := range w.nested.take() {
				if !w.hear(ev) {
					return wokeLeft
				}
			}
		case <-w.room:
			return wokeSeated
		case <-w.told:
			return wokeTold
		case <-w.overdue:
			return wokeTold
		case <-w.over:
			return wokeOver
		}
	}
}

// never is longer than anything takes.
const never = time.Duration(1<<63 - 1)

// timer fires when there may be something to do without a signal: after that
// time, unless it is never, and when a body's time of grace is over.
func (cr *crew) timer(after time.Duration) (c <-chan time.Time, stop func()) {
	for _, m := range cr.underway {
		if !m.grace.IsZero() {
			after = min(after, time.Until(m.grace))
		}
	}
	switch {
	case after == never:
		return nil, func() {}
	case after <= 0:
		return passed, func() {}
	}
	t := time.NewTimer(after)
	return t.C, func() { t.Stop() }
}

// passed is a time that has come.
var passed = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()
