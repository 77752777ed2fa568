package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// WorkOptions configure Work. Nil means the defaults.
type WorkOptions struct {
	// Session, if set, is the one session that this worker looks after, for a program that serves one person, or a test. It need not
	// exist yet. Such a worker sweeps nothing. A session that was deleted, that can't be read, or whose agent the runner doesn't have,
	// is the error of Work.
	Session string
	// UntilOver, with Session: Work returns nil as soon as the session exists and has nothing left that a worker could do, now or later:
	// its run is over, no call waits, and no drive holds it.
	UntilOver bool
	// Concurrency is how many sessions are driven at once; default 16.
	Concurrency int
	// Poll is how often the store is asked for work that no signal told of; default 1 s.
	Poll time.Duration
	// OnEvent, if set, sees the events of all sessions that this worker drives, of several at once, and the errors that end a
	// drive, then without an event. The drive waits for it.
	OnEvent func(sessionID string, ev event.Event, err error)
	// Retention says how long things are kept; nil means the defaults. What has outlived it is swept every SweepEvery; default
	// an hour, negative never.
	Retention  *session.Retention
	SweepEvery time.Duration
}

// Work carries on what is due in the sessions of this runner's agents: answers that were accepted, deadlines, and, after a
// crash, everything; not runs that were interrupted or have failed, which Continue and the next message carry on, as does an answer to a
// call of one that was interrupted. It returns when ctx ends, with its error, and after what it drives has stopped: models are no longer
// waited for, bodies are, for Options.CloseTimeout.
//
// What it finds comes from an index that holds what is due and nothing else, so that idle sessions cost nothing.
func (rn *Runner) Work(ctx context.Context, o *WorkOptions) error {
	if len(rn.agents) == 0 {
		return fmt.Errorf("%w: this runner has none, and so a worker would find nothing", ErrUnknownAgent)
	}
	if o != nil && o.UntilOver && o.Session == "" {
		return errors.New("runner: WorkOptions.UntilOver goes with Session: the work of a whole store is never over")
	}
	w := newWorker(rn, o)
	due, stop := w.watch()
	defer stop()
	defer w.drives.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.drives.Go(func() { w.sweep(ctx) })
	for {
		next, over, err := w.due(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case over || err != nil && w.o.Session != "":
			return err
		case err != nil:
			rn.options.Logger.Error("a worker can't read what is due", "error", err)
		}
		timer := time.NewTimer(w.pause(next))
		select {
		case <-due:
		case <-w.freed:
		case <-timer.C:
		case <-rn.closing.Done():
			timer.Stop()
			return ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// worker is one Work.
type worker struct {
	rn     *Runner
	o      WorkOptions
	drives sync.WaitGroup
	freed  chan struct{} // gets a value when a drive has ended

	mu      sync.Mutex
	active  map[string]bool
	backoff map[string]*backoff // of sessions that could not be driven

	// Of the goroutine of Work:
	watching watching
	lookedAt time.Time            // for strangers, the last time
	warned   map[string]time.Time // of which it warned, by agent
}

// backoff keeps a session that can't be driven from being tried all the time.
type backoff struct {
	wait  time.Duration
	until time.Time
	key   string // if set, only while it is due by this index entry
}

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
)

func newWorker(rn *Runner, o *WorkOptions) *worker {
	w := &worker{rn: rn, active: map[string]bool{}, backoff: map[string]*backoff{}, freed: make(chan struct{}, 1), warned: map[string]time.Time{}}
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
	return w
}

// sweep removes what has outlived its retention, now and then. Workers that share a store begin at different times.
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

// due starts what is due, says when the next session will be, and whether the work is over.
func (w *worker) due(ctx context.Context) (next time.Time, over bool, err error) {
	if w.o.Session != "" {
		return w.one(ctx)
	}
	next, err = w.round(ctx)
	return next, false, err
}

// one is due for the one session of this worker.
func (w *worker) one(ctx context.Context) (next time.Time, over bool, err error) {
	if w.busy() { // asked first: what the drive leaves is what is read then
		return next, false, nil
	}
	id := w.o.Session
	st, err := w.rn.store.Load(ctx, id)
	if errors.Is(err, session.ErrUnknownSession) {
		return next, false, nil // somebody will begin it
	}
	if err == nil && !st.Deleted.IsZero() {
		err = fmt.Errorf("%w: %q", session.ErrDeleted, id)
	}
	if err == nil {
		_, err = w.rn.agent(st.Agent)
	}
	if err != nil {
		return next, false, err
	}
	step := w.rn.store.Next(st)
	switch driven, until := w.rn.store.Driven(st); {
	case driven:
		next = until
	case step.Working(), w.rn.returned(st):
		w.start(ctx, session.Due{Session: id})
	case step.Left() || step.Kind == session.StepWait || st.Open() > 0: // also of a run that was interrupted while a call waited
		next = step.Until
	default:
		over = w.o.UntilOver
	}
	return next, over, nil
}

// watch tells when it is worth looking what is due, as far as this process knows.
func (w *worker) watch() (c <-chan struct{}, stop func()) {
	if w.o.Session != "" {
		return w.rn.store.WatchAll(w.o.Session)
	}
	return w.rn.store.WatchWork()
}

// busy says that this worker drives something.
func (w *worker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active) > 0
}

// round starts what is due, as far as there is room, and says when the next session will be due.
func (w *worker) round(ctx context.Context) (next time.Time, err error) {
	for name := range w.rn.agents {
		var after []byte
		for more := true; more; {
			var due []session.Due
			var at time.Time
			if due, more, at, err = w.rn.store.Due(ctx, name, after); err != nil {
				return next, err
			}
			if len(due) > 0 {
				after = due[len(due)-1].Key
			}
			// Workers that share a store begin at different places, so that they don't all run for the same session.
			rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
			for _, e := range due {
				if !w.start(ctx, e) {
					return next, nil // no more room
				}
			}
			if next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		parked, err := w.rn.store.Parked(ctx, name, func(tool string) bool { return w.rn.has(name, tool) })
		if err != nil {
			return next, err
		}
		for _, id := range parked {
			if !w.start(ctx, session.Due{Session: id}) {
				return next, nil
			}
		}
	}
	at, err := w.watched(ctx)
	if next.IsZero() || !at.IsZero() && at.Before(next) {
		next = at
	}
	w.strangers(ctx)
	return next, err
}

// start drives a session that is due, unless that is hopeless now. It reports
// whether there was room.
func (w *worker) start(ctx context.Context, due session.Due) bool {
	id := due.Session
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.backoff[id]
	switch {
	case w.active[id], b != nil && time.Now().Before(b.until) && (b.key == "" || b.key == string(due.Key)):
		return true
	case len(w.active) >= w.o.Concurrency:
		return false
	}
	w.active[id] = true
	w.drives.Add(1)
	go func() {
		defer w.drives.Done()
		err := errNotDriven
		defer func() { w.ended(due, err) }()
		err = w.drive(ctx, id)
	}()
	return true
}

// errNotDriven is how a drive ends whose goroutine was ended by a tool, a model or OnEvent.
var errNotDriven = errors.New("the drive's goroutine was ended")

// backsOff is why a session is not driven yet whose drives died: it is tried
// again at its time.
type backsOff struct{ until time.Time }

func (b *backsOff) Error() string { return "drives of the session died; it is tried again later" }

// ended notes how a drive went. One that got nowhere is tried again later and
// later; one that another drive has, when that one's lease ends, if it is
// known, or the session is due by another entry, and otherwise soon.
func (w *worker) ended(due session.Due, err error) {
	now := w.rn.store.Now() // the clock is code of others: not under the lock
	w.mu.Lock()
	defer w.mu.Unlock()
	id := due.Session
	delete(w.active, id)
	var later *backsOff
	var busy *session.BusyError
	in := func(until time.Time) time.Time { return time.Now().Add(max(firstBackoff, until.Sub(now))) }
	switch b := w.backoff[id]; {
	case err == nil:
		delete(w.backoff, id)
	case errors.As(err, &later):
		w.backoff[id] = &backoff{wait: 2 * firstBackoff, until: in(later.until)}
	case errors.As(err, &busy) && !busy.Until.IsZero():
		w.backoff[id] = &backoff{wait: 2 * firstBackoff, until: in(busy.Until), key: string(due.Key)}
	case b == nil || errors.Is(err, session.ErrBusy):
		w.backoff[id] = &backoff{wait: 2 * firstBackoff, until: time.Now().Add(firstBackoff)}
	default:
		b.until = time.Now().Add(b.wait)
		b.wait = min(2*b.wait, maxBackoff)
	}
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// drive drives one session. An error says that it got nowhere.
func (w *worker) drive(ctx context.Context, id string) error {
	// What runs when ctx ends may still run to its end.
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(w.rn.options.CloseTimeout, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(lasting, func() { timer.Stop() })
	})()
	d, err := w.rn.newDrive(lasting, id, nil)
	if err != nil {
		// Another drive has it, or it can't be read: others go on.
		if !errors.Is(err, session.ErrBusy) && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
			w.rn.options.Logger.Error("a session could not be carried on", "session", id, "error", err)
			w.show(id, nil, err)
		}
		return err
	}
	if at := d.lease.NotUntil(); at.After(w.rn.store.Now()) {
		d.drop()
		return &backsOff{at}
	}
	d.worker, d.stopping = true, ctx
	var failed error
	idle := d.idle()
	for ev, err := range d.events(nil) {
		if idle && err == nil {
			continue // another drive was faster, and has shown how the run ended
		}
		if err != nil {
			failed = err
			if ctx.Err() == nil {
				w.rn.options.Logger.Error("a session could not be carried on", "session", id, "error", err)
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
			w.rn.options.Logger.Error("OnEvent panicked", "session", id, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	w.o.OnEvent(id, ev, err)
}

// pause is how long to wait for a signal.
func (w *worker) pause(next time.Time) time.Duration {
	wait := w.o.Poll
	if !next.IsZero() {
		wait = min(wait, next.Sub(w.rn.store.Now()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, b := range w.backoff {
		switch late := time.Since(b.until); {
		case late > maxBackoff:
			delete(w.backoff, id) // it is no longer due
		case late < 0:
			wait = min(wait, -late)
		}
	}
	return max(wait, time.Millisecond)
}
