package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// look is what the followers of one session share within the process: its feed,
// and the reads of the store. Its goroutine reads the head when a commit is
// signalled, when the time has come at which something changes by itself, or
// when it is told to. Each follower shows what is new to it of the latest view,
// in its own goroutine, as fast as its caller takes it.
type look struct {
	rn      *Runner
	session string
	feed    *feed
	again   chan struct{} // have it look; holds one value
	end     context.CancelFunc

	followers int // guarded by looks.mu

	mu      sync.Mutex // guards the rest; held over no call
	view    *view      // the latest
	asked   int        // how often a look was asked for
	given   int        // how many of those are answered by the view
	through int        // followers that go on through waits
	active  time.Time  // monotonic: when something last changed, see followpoll.go
	polled  time.Time  // monotonic: when it was last polled
}

// ask has the look read the head once more. A view that counts as the answer
// began to be read after the call.
func (l *look) ask() (ticket int) {
	l.mu.Lock()
	l.asked++
	ticket = l.asked
	l.mu.Unlock()
	l.poll()
	return ticket
}

// poll has the look read the head soon.
func (l *look) poll() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// seen returns the latest view; nil: there is none that answers the ticket.
func (l *look) seen(ticket int) *view {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given < ticket {
		return nil
	}
	return l.view
}

// run looks until ctx ends.
func (l *look) run(ctx context.Context) {
	changed, stop := l.rn.store.WatchAll(l.session)
	defer stop()
	if l.rn.fansOut() {
		go l.subscribes(ctx)
	}
	timer := time.NewTimer(never)
	defer timer.Stop()
	var w watch
	for {
		timer.Reset(l.once(ctx, &w))
		select {
		case <-changed:
		case <-l.again:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// watch is what a look knows from view to view. Its goroutine owns it.
type watch struct {
	undriven time.Time // since when work is due that no drive takes up, or zero
	below    below
}

// once reads a view, and has the followers look at it if it tells anything new.
// It returns when it is to look without a signal.
func (l *look) once(ctx context.Context, w *watch) (next time.Duration) {
	l.mu.Lock()
	ticket, before, through := l.asked, l.view, l.through > 0
	l.mu.Unlock()
	v, next := l.read(ctx, w, before, through)
	if ctx.Err() != nil {
		return never
	}
	l.mu.Lock()
	news := v != before
	wake := news || l.given != ticket
	if l.view, l.given = v, ticket; news {
		l.active = time.Now()
	}
	l.mu.Unlock()
	if wake {
		l.feed.wake()
	}
	return next
}

// read returns the view of now, or the one before if that tells as much.
func (l *look) read(
	ctx context.Context, w *watch, before *view, through bool,
) (v *view, next time.Duration) {
	rn := l.rn
	st, seen, err := rn.store.LoadSeen(ctx, l.session)
	if err == nil && !st.Deleted.IsZero() {
		err = fmt.Errorf("%w: %q", session.ErrDeleted, l.session)
	}
	if err != nil {
		return &view{look: l, err: err}, never
	}
	v = &view{look: l, ctx: ctx, st: st, seen: seen, step: rn.store.Next(st)}
	v.driven, _ = rn.store.Driven(st)
	if v.fresh = st.Messages; before != nil && before.st != nil {
		v.fresh = before.st.Messages
	}
	next = never
	if until := v.step.Until; !until.IsZero() && v.step.Kind != session.StepExpire {
		next = min(max(until.Sub(rn.store.Now()), time.Millisecond), followDue)
	}
	next = min(next, w.noteUndriven(v))
	if through && st.Children > 0 && v.step.Kind == session.StepWait {
		next = min(next, undrivenAfter)
		if err := w.noteBelow(ctx, v); err != nil {
			return &view{look: l, err: err}, never
		}
	}
	if v.progress, err = l.stored(ctx, st); err != nil {
		return &view{look: l, err: err}, never
	}
	if before != nil && before.tells(v) {
		return before, next
	}
	return v, next
}

// stored reads the progress of the calls that may have some. In a process that
// has the engine alone it was shown as it was reported, but to a follower that
// came later.
func (l *look) stored(ctx context.Context, st *session.State) (all []progressOf, err error) {
	for i := range st.Calls {
		c := &st.Calls[i]
		if c.Status == session.Settled || c.Background {
			continue
		}
		p, err := l.rn.store.LatestProgress(ctx, l.session, c.ID)
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, progressOf{c.ID, c.Tool, *p})
		}
	}
	return all, nil
}

// followDue is how long a look relies on the store's clock, which may be set,
// before a deadline.
const followDue = time.Minute

// undrivenAfter is how long work may be due before a follower is told that no
// drive takes it up. A worker takes it up within a second.
const undrivenAfter = 2 * time.Second

// noteUndriven notes since when work is due that no drive takes up, and returns
// when it is time to look again.
func (w *watch) noteUndriven(v *view) (next time.Duration) {
	if !v.step.Working() || v.driven {
		w.undriven = time.Time{}
		return never
	}
	if w.undriven.IsZero() {
		w.undriven = time.Now()
	}
	left := undrivenAfter - time.Since(w.undriven)
	if left > 0 {
		return left
	}
	v.undriven = w.undriven
	return never
}

// below is what a look knows of work that is due below its session.
type below struct {
	looked time.Time
	undone map[string]undone // by session
	busy   bool              // something goes on below
}

// undone is work that no drive has taken up.
type undone struct {
	due  time.Time // since when, by its session
	told bool      // it was there at the look before
	lack lack
}

// noteBelow is noteUndriven for the sessions below. It looks at them now and
// then: each look reads all that wait.
func (w *watch) noteBelow(ctx context.Context, v *view) error {
	now := time.Now()
	if now.Sub(w.below.looked) < undrivenAfter {
		v.below = w.below
		return nil
	}
	before := w.below.undone
	w.below = below{looked: now, undone: map[string]undone{}}
	err := v.look.rn.eachBusy(ctx, v.st, func(child *session.State, is doing) {
		w.below.busy = w.below.busy || is != lacks
		if is != works && is != lacks {
			return
		}
		u := undone{due: child.DueSince(), lack: lackOf(child)}
		if was, ok := before[child.ID]; ok && was.due.Equal(u.due) {
			u.told = true
		}
		w.below.undone[child.ID] = u
	})
	v.below = w.below
	if unreadable(err) {
		err = nil
	}
	return err
}
