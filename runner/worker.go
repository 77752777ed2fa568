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

	// Of the goroutine of Work:
	watching watching
	lookedAt time.Time            // for strangers, the last time
	warned   map[string]time.Time // of which it warned, by agent
}

func newWorker(rn *Runner, o *WorkOptions) *worker {
	w := &worker{rn: rn, warned: map[string]time.Time{}}
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
	w.places = newPlaces(w.o.Concurrency)
	return w
}

// start drives a session that is due, in a goroutine of its own, unless it has
// one, or is to be left alone, or another drive of this process has it. It
// reports whether there was room.
func (w *worker) start(ctx context.Context, due session.Due) bool {
	switch {
	case w.rn.store.HeldHere(due.Session): // the end of that drive wakes the worker
		return true
	case session.IsChild(due.Session):
		w.adopt(ctx, due)
		return true
	case w.rn.children.followed(due.Session): // the caller who follows it takes it
		return true
	}
	taken, room := w.places.take(due)
	if !taken {
		return room
	}
	w.drives.Go(func() {
		err := errNotDriven
		defer func() { w.places.giveBack(due, err, w.rn.store.Now()) }()
		err = w.drive(ctx, due)
	})
	return true
}

// adopt has a child that is due driven. The process that drove its parent may
// be another one, or gone.
func (w *worker) adopt(ctx context.Context, due session.Due) {
	id := due.Session
	if w.rn.children.known(id) { // it costs no read while it waits for its place
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
	if st.Deleted.IsZero() && (st.Held || due.IsLeft() || w.rn.store.Next(st).Working()) {
		w.rn.children.start(st.Root(), id)
	}
}

// errNotDriven is how a drive ends whose goroutine was ended by a tool, a model
// or OnEvent.
var errNotDriven = errors.New("the drive's goroutine was ended")

// drive drives one session. After an error the session is left alone for a
// while.
func (w *worker) drive(ctx context.Context, due session.Due) error {
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
	var failed error
	idle := d.idle()
	for ev, err := range d.events(nil) {
		if idle && err == nil {
			continue // another drive was faster, and has shown how the run ended
		}
		if err != nil {
			failed = err
			if ctx.Err() == nil {
				w.rn.options.Logger.Error("a session could not be carried on",
					"session", id, "error", err)
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
		wait = w.o.SweepEvery
	}
}
