package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// worker is one call of Work.
type worker struct {
	rn     *Runner
	o      WorkOptions
	drives sync.WaitGroup
	places places
	line   *dueLine
	share  *share
	hungry chan struct{} // gets a value when it is to look for what is due

	// Of the goroutine of Work:
	foreign  foreign           // what others look after
	passed   int               // how much of what was due in this round others have in hand
	from     map[string][]byte // where the index of an agent is read on, in the next round
	watching watching
	fronts   fronts
	lookedAt time.Time            // for strangers, the last time
	warned   map[string]time.Time // of which it warned, by agent
}

func newWorker(rn *Runner, o *WorkOptions) *worker {
	w := &worker{rn: rn, share: newShare(rn), hungry: make(chan struct{}, 1),
		from: map[string][]byte{}, warned: map[string]time.Time{},
		fronts: fronts{of: map[string]session.Front{}, whole: map[string]wholeLook{},
			soon: map[string]bool{}}}
	if o != nil {
		w.o = *o
	}
	if w.o.Retention != nil {
		own := *w.o.Retention
		w.o.Retention = &own
	}
	if w.o.Concurrency <= 0 {
		w.o.Concurrency = 16
	}
	if w.o.Poll <= 0 {
		w.o.Poll = time.Second
	}
	if w.o.SweepEvery == 0 {
		w.o.SweepEvery = time.Hour
	}
	if w.o.Held <= 0 {
		w.o.Held = heldEach * w.o.Concurrency
	}
	w.o.Held = max(w.o.Held, w.o.Concurrency)
	w.places = newPlaces(w.o.Concurrency, w.o.Held)
	w.line = newDueLine(max(lineEach, w.o.Concurrency))
	return w
}

const (
	heldEach = 16 // sessions that a worker holds for each of its places
	lineEach = 64 // of one user, that stand in its line
)

// found takes in a session that is due: it stands in the line from then on,
// unless another drive of this process has it, or it is to be left alone.
func (w *worker) found(ctx context.Context, due session.Due) {
	switch {
	case w.isElsewhere(due.Session):
		w.passed++
	case session.IsChild(due.Session):
		w.passed++
		w.adopt(ctx, due)
	case w.rn.courier.has(due.Session) && w.onlyOwes(ctx, due.Session):
		w.passed++
	case w.places.takes(due) && !w.line.add(due):
		w.passed++
	}
}

// onlyOwes reports whether a root has nothing for a drive, and is due for what it
// owes others alone, of which the courier has it in hand.
func (w *worker) onlyOwes(ctx context.Context, id string) bool {
	st, err := w.rn.store.Load(ctx, id)
	return err == nil && st.HasErrands() && !st.Held &&
		(!st.Deleted.IsZero() || !w.rn.store.Next(st).Working() && !w.rn.returned(st))
}

// isElsewhere reports whether something else of this process has a session in
// hand: a drive of this worker, which looks for more at its end; another drive,
// whose end wakes the worker; or a caller who follows what is below the session,
// and takes it.
func (w *worker) isElsewhere(id string) bool {
	return w.places.holds(id) || w.rn.store.HeldHere(id) || !session.IsChild(id) && w.rn.children.followed(id)
}

// fill gives the places that are free to sessions of the line, and to drives
// that ask for theirs again. It may be called from any goroutine that Work waits
// for.
func (w *worker) fill(ctx context.Context) {
	for ctx.Err() == nil {
		due, s := w.line.next(&w.places, func(id string) bool { return !w.isElsewhere(id) })
		if s != nil {
			w.begin(ctx, due, s)
		} else if !w.places.grant() {
			break
		}
	}
	if w.line.ranDry() {
		w.look()
	}
}

// look has the worker look for what is due.
func (w *worker) look() {
	select {
	case w.hungry <- struct{}{}:
	default:
	}
}

// begin drives a session that has a place, in a goroutine of its own.
func (w *worker) begin(ctx context.Context, due session.Due, s *seat) {
	w.drives.Go(func() {
		err := errNotDriven
		defer func() {
			w.places.giveBack(due, err, w.rn.store.Now())
			w.fill(ctx)
			if w.line.isEmpty() {
				w.look()
			}
		}()
		err = w.drive(ctx, due, s)
	})
}

// adopt has a child that is due driven. The process that drove its parent may
// be another one, or gone.
func (w *worker) adopt(ctx context.Context, due session.Due) {
	id := due.Session
	// It costs no read while it waits for its place, or its parent is told.
	if w.rn.children.known(id) || !due.IsLeft() && w.rn.courier.knows(id) {
		return
	}
	st, err := w.rn.store.Load(ctx, id)
	if errors.Is(err, session.ErrUnknownSession) || err == nil && !st.Deleted.IsZero() {
		w.rn.store.Forget(due)
	}
	if err != nil {
		w.rn.options.Logger.Error("a child can't be read", "session", id, "error", err)
		return
	}
	if st.HasErrands() {
		w.rn.courier.send(st.Owing())
	}
	if st.Deleted.IsZero() && (st.Held || due.IsLeft() || w.rn.store.Next(st).Working() ||
		w.rn.returned(st)) {
		w.rn.children.start(st.Root(), id)
	}
}

// errNotDriven is how a drive ends whose goroutine was ended by a tool, a model
// or OnEvent.
var errNotDriven = errors.New("the drive's goroutine was ended")

// drive drives one session. After an error the session is left alone for a
// while.
func (w *worker) drive(ctx context.Context, due session.Due, s *seat) error {
	id := due.Session
	// When ctx ends, bodies that run may still end by themselves, for
	// CloseTimeout.
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(w.rn.options.CloseTimeout, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(lasting, func() { timer.Stop() })
	})()
	d, err := w.rn.newDrive(lasting, id, nil)
	if isAny(err, session.ErrDeleted, session.ErrUnknownSession) {
		w.rn.store.Forget(due)
	}
	if isAny(err, session.ErrDeleted, session.ErrBusy) { // what it owes may make it due
		w.rn.courier.send(session.Owing{Session: id, Root: id})
	}
	if errors.Is(err, session.ErrDeleted) {
		return nil
	}
	if err != nil {
		// Another drive has it, or it can't be read. The worker goes on with
		// others.
		if !errors.Is(err, session.ErrBusy) && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
			w.rn.options.Logger.Error("a session could not be carried on",
				"session", id, "error", err)
			w.show(id, nil, err)
		}
		return err
	}
	if at := d.lease.NotUntil(); at.After(w.rn.store.Now()) {
		d.drop()
		return &backsOff{at}
	}
	d.worker, d.life.stopping = true, ctx
	d.sit(s)
	var failed error
	idle := d.idle()
	for ev, err := range d.events(nil) {
		if _, isEnd := ev.(event.End); idle && isEnd && err == nil {
			continue // another drive was faster, and has shown how the run ended
		}
		idle = false // something came in between
		if err != nil {
			failed = err
			if ctx.Err() == nil {
				w.rn.logEnd("a session could not be carried on", id, err)
			}
		}
		w.show(id, ev, err)
	}
	return failed
}

// show calls OnEvent. If that panics, the drive goes on.
func (w *worker) show(id string, ev event.Event, err error) {
	if w.o.OnEvent == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.rn.options.Logger.Error("OnEvent panicked",
				"session", id, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	w.o.OnEvent(id, ev, err)
}

// sweep removes what has outlived its retention, every SweepEvery, in a
// goroutine of its own. Workers that share a store begin at different times.
func (w *worker) sweep(ctx context.Context) {
	if w.o.SweepEvery < 0 || w.o.Session != "" {
		return
	}
	wait := rand.N(w.o.SweepEvery)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if _, err := w.rn.store.Sweep(ctx, w.o.Retention); err != nil && ctx.Err() == nil {
			w.rn.options.Logger.Error("a sweep left something undone", "error", err)
		}
		if _, err := w.rn.wide.Sweep(ctx); err != nil && ctx.Err() == nil {
			w.rn.options.Logger.Error("a sweep left changes of wait handles", "error", err)
		}
		wait = w.o.SweepEvery
	}
}
