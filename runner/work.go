package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// WorkOptions configure Work. Nil means the defaults.
type WorkOptions struct {
	// Session, if set, is the one session that this worker looks after, for a
	// program that serves one person, or a test. It need not exist yet. Such a
	// worker sweeps nothing. A session that was deleted, that can't be read, or
	// whose agent the runner doesn't have, is the error of Work.
	Session string
	// UntilOver, with Session: Work returns nil as soon as the session exists
	// and has nothing left that a worker could do, now or later: its run is
	// over, no call waits, no drive holds it, and nothing is left to call off
	// outside, also of the sessions below it, but for what was given up.
	UntilOver bool
	// Concurrency is how many sessions are driven at once, not counting those
	// that only wait for tools that run; default 16.
	Concurrency int
	// Held is how many sessions are held at once, counting those that only wait
	// for tools that run, and those that wait to be driven on; default 16 times
	// Concurrency, and never less than that. Each runs as many bodies of tools
	// as its agent's Concurrency allows. Of one user no more than Concurrency are
	// held, or than could be held of others at that time: with the default, half.
	Held int
	// Poll is how often the store is asked for work that no signal told of;
	// default 1 s.
	Poll time.Duration
	// OnEvent, if set, sees the events of all sessions that this worker drives,
	// of several at once, and the errors that end a drive, then without an
	// event. The drive waits for it.
	OnEvent func(sessionID string, ev event.Event, err error)
	// Retention is how long things are kept; nil means the defaults. What has
	// outlived it is swept every SweepEvery; default an hour, negative never.
	Retention  *session.Retention
	SweepEvery time.Duration
}

// Work carries on what is due in the sessions of this runner's agents: answers
// that were accepted, deadlines, and, after a crash, everything. It leaves
// alone runs that were interrupted or have failed: Continue and the next
// message carry those on, and so does an answer to a call of an interrupted
// run. Work returns when ctx ends, with its error, after its drives have
// stopped. It then waits for no model any more, and for bodies as long as
// Options.CloseTimeout.
//
// What it finds comes from an index that holds what is due and nothing else, so
// that idle sessions cost nothing.
func (rn *Runner) Work(ctx context.Context, o *WorkOptions) error {
	if len(rn.agents) == 0 {
		return fmt.Errorf("%w: this runner has none, and so a worker would find nothing",
			ErrUnknownAgent)
	}
	if o != nil && o.UntilOver && o.Session == "" {
		return errors.New("runner: WorkOptions.UntilOver goes with Session: " +
			"the work of a whole store is never over")
	}
	w := newWorker(rn, o)
	due, stop := w.watch()
	defer stop()
	late, stopLate := rn.store.WatchLate()
	defer stopLate()
	defer rn.children.tell(w.show)()
	defer w.drives.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.places.fill = func() { w.fill(ctx) }
	w.drives.Go(func() { w.sweep(ctx) })
	w.drives.Go(func() { w.waits(ctx) })
	w.join(ctx)
	unread := recurring{log: rn.options.Logger, what: "a worker can't read what is due"}
	for {
		next, over, err := w.due(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && rn.closing.Err() != nil:
			return ErrClosed // the engine may be closed by now
		case over || err != nil && w.o.Session != "":
			return err
		}
		unread.look(err)
		timer := time.NewTimer(w.pause(next))
		select {
		case <-due:
			w.breathe(ctx)
		case <-late:
			w.late()
		case <-w.hungry:
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

// due starts what is due, and returns when the next session will be due, and
// whether the work is over.
func (w *worker) due(ctx context.Context) (next time.Time, over bool, err error) {
	w.passed = 0
	if w.o.Session != "" {
		return w.one(ctx)
	}
	next, err = w.round(ctx)
	return next, false, err
}

// one is due for the one session of this worker.
func (w *worker) one(ctx context.Context) (next time.Time, over bool, err error) {
	if w.places.busy() { // asked before the read, which then sees how the drive ended
		return next, false, nil
	}
	id := w.o.Session
	st, err := w.rn.store.Load(ctx, id)
	if errors.Is(err, session.ErrUnknownSession) {
		return next, false, nil // a caller will begin it
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
		w.found(ctx, session.Due{Session: id})
		w.fill(ctx)
	// The last condition: the run was interrupted while a call waited.
	case step.HasWork() || step.Kind == session.StepWait || st.Open() > 0:
		next = sooner(step.Until, w.carries(st))
		if _, _, err = w.rn.stir(ctx, st); err == nil {
			err = w.lacks(ctx, st)
		}
	default:
		next, over, err = w.atRest(ctx, st)
	}
	return next, over, err
}

// carries has carried out what a session owes, and looked at what waits for a
// tool. It returns when more will be due; zero: not by itself.
func (w *worker) carries(st *session.State) (next time.Time) {
	if !st.HasErrands() {
		return next
	}
	w.rn.courier.send(st.Owing())
	if at, _ := st.OwesAt(); at.After(w.rn.store.Now()) {
		return at
	}
	return next
}

// sooner returns the earlier of two times; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ends reports whether a child whose call has ended without it is still to come
// to its own end here, and has it driven.
func (w *worker) ends(child *session.State) bool {
	if driven, _ := w.rn.store.Driven(child); driven {
		return true
	}
	if w.rn.agents[child.Agent] == nil || !w.rn.store.Next(child).Working() {
		return false
	}
	if w.rn.children.unread(child.ID) != nil { // it is tried again all the same
		return false
	}
	w.rn.children.start(child.Root(), child.ID)
	return true
}

// atRest is one for a session whose run is over. What it, or one below it, is
// still to tell others, or to call off outside, is work as well. What was given
// up isn't, nor what waits for a tool that is gone, or can't be done since
// something can't be read.
func (w *worker) atRest(
	ctx context.Context, root *session.State,
) (next time.Time, over bool, err error) {
	over = w.o.UntilOver
	owes := func(st *session.State) {
		if _, owes := w.rn.courier.able(st).OwesAt(); owes {
			over = false
			next = sooner(next, w.carries(st))
		}
	}
	if !over {
		owes(root)
		return next, false, nil
	}
	for st, err := range w.rn.store.List(ctx, session.Filter{Root: root.ID, Children: true}) {
		switch {
		case err == nil:
			owes(st)
			if st.ID != root.ID && w.ends(st) {
				over = false
			}
		case !unreadable(err):
			return next, false, err
		}
	}
	return next, over, nil
}

// watch returns a channel that gets a value when a session may be due, as far
// as this process knows.
func (w *worker) watch() (c <-chan struct{}, stop func()) {
	if w.o.Session != "" {
		return w.rn.store.WatchAll(w.o.Session)
	}
	return w.rn.store.WatchWork()
}

// lookEach is how long a worker waits between two rounds for each session that
// others have in hand, where there are many. A round reads past them, and their
// own commits may wake the worker each time: thousands of children that wait
// for places would cost reads that grow with the square of their number. What
// else is due waits as well, so maxBreath bounds it.
const (
	lookEach   = 50 * time.Microsecond
	manyPassed = 100
	maxBreath  = 50 * time.Millisecond
)

// breathe waits after a round that has passed many sessions over, or until a
// place is free.
func (w *worker) breathe(ctx context.Context) {
	if w.passed <= manyPassed {
		return
	}
	timer := time.NewTimer(min(w.o.Poll, maxBreath, time.Duration(w.passed)*lookEach))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.hungry:
	case <-w.rn.closing.Done():
	case <-ctx.Done():
	}
}

// round looks for what is due, starts it as far as there is room, and returns
// when the next session will be due.
func (w *worker) round(ctx context.Context) (next time.Time, err error) {
	defer w.fill(ctx)
	for name := range w.rn.agents {
		if err := w.left(ctx, name); err != nil {
			return next, err
		}
		at, err := w.index(ctx, name)
		if err != nil {
			return next, err
		}
		next = sooner(next, at)
		parked, err := w.rn.store.Parked(ctx, name,
			func(tool string) bool { return w.rn.hasParked(name, tool) })
		if err != nil {
			return next, err
		}
		for _, id := range parked {
			w.found(ctx, session.Due{Session: id})
		}
	}
	w.borrow(ctx)
	at, err := w.watched(ctx)
	w.strangers(ctx)
	return sooner(next, at), err
}

// roundMost is how many entries of an agent's index a round reads, beside the
// first page. The next round reads on.
const roundMost = 1 << 12

// index looks for what is due in the index of an agent, and returns when the
// next session will be due, if it has read as far as that. It begins with those
// that are due longest. Where very much is due, it goes on where the last round
// has stopped, so that what is due since then is found all the same.
func (w *worker) index(ctx context.Context, agent string) (next time.Time, err error) {
	var after []byte
	if w.rn.store.KeepsDeleted() {
		p, err := w.front(ctx, agent)
		if err != nil || !p.More {
			return p.Next, err
		}
		after = p.Then.Key()
	}
	for first, read := true, 0; read < roundMost; first = false {
		due, more, at, err := w.rn.store.Due(ctx, agent, after)
		if err != nil {
			return next, err
		}
		if len(due) > 0 {
			after = due[len(due)-1].Key
			read += len(due)
		}
		w.take(ctx, agent, due)
		if !more {
			delete(w.from, agent)
			return at, nil
		}
		if from := w.from[agent]; first && bytes.Compare(from, after) > 0 {
			after = from
		}
	}
	w.from[agent] = after
	return next, nil
}

// pause is how long to wait for a signal.
func (w *worker) pause(next time.Time) time.Duration {
	wait := w.o.Poll
	if !next.IsZero() {
		wait = min(wait, next.Sub(w.rn.store.Now()))
	}
	return max(w.places.soonest(wait), time.Millisecond)
}
