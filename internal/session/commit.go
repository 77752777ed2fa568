package session

import (
	"context"
	"errors"
)

// What the goroutine that has a lease's slot does with it. A method here takes
// the slot, uses it, and gives it up; those that need the slot already held say
// so.

// Update commits transitions, with all that rides. If the lease was lost, the
// error is ErrFenced. Ctx bounds how long the caller waits, and not the commit.
// If ctx ends first, the error is ErrGoesOn, and the caller must not look at
// what the transitions would have told it.
func (l *Lease) Update(ctx context.Context, ts ...Transition) error {
	if !l.slot.enter(ctx) {
		return l.slot.handOver(ctx, task{ts: clone(ts)})
	}
	return l.entered(ctx, ts)
}

// commit is Update for what needn't be done once its caller waits no more.
func (l *Lease) commit(ctx context.Context, ts ...Transition) error {
	if !l.slot.enter(ctx) {
		return context.Cause(ctx)
	}
	return l.entered(ctx, ts)
}

// entered is Update for a caller that has the slot.
func (l *Lease) entered(ctx context.Context, ts []Transition) error {
	err := l.slot.use(func() error { return l.update(ctx, ts...) })
	if errors.Is(err, errUnderway) {
		return l.slot.goesOn(ctx, task{ts: clone(ts)})
	}
	return err
}

// do is Update for a task.
func (l *Lease) do(ctx context.Context, t task) error {
	if !l.slot.enter(ctx) {
		return l.slot.handOver(ctx, t)
	}
	err := l.slot.use(func() error { return l.perform(ctx, t, false) })
	if errors.Is(err, errUnderway) {
		return l.slot.goesOn(ctx, t)
	}
	return err
}

// alone calls f with the slot.
func (l *Lease) alone(ctx context.Context, f func() error) error {
	if !l.slot.enter(ctx) {
		return context.Cause(ctx)
	}
	err := l.slot.use(f)
	if errors.Is(err, errUnderway) { // in a commit that f had begun
		return l.slot.goesOn(ctx, task{})
	}
	return err
}

// perform does a task, or goes on with one that was begun.
func (l *Lease) perform(ctx context.Context, t task, begun bool) (err error) {
	over := true // also if the engine ends this goroutine
	if t.giveUp {
		defer func() {
			if over {
				l.Release()
			}
		}()
	}
	switch {
	case t.drop:
		return l.drop(ctx)
	case begun:
		err = l.goOn(ctx, t.ts...)
	case t.giveUp:
		err = l.end(ctx, t.ts)
	default:
		err = l.update(ctx, t.ts...)
	}
	over = begun || !errors.Is(err, errUnderway)
	return err
}

func (l *Lease) cutOff()      { l.head.cutOff() }
func (l *Lease) isLost() bool { return l.fate.isLost() }

// GiveUp commits the given transitions, and gives the lease up, however much is
// still to do. A drive that committed nothing, and has nothing to commit,
// leaves no trace. GiveUp waits no longer than ctx; then the error is
// ErrGoesOn, and the lease is given up when the commit is done.
func (l *Lease) GiveUp(ctx context.Context, ts ...Transition) error {
	return l.do(ctx, task{ts: append(ts[:len(ts):len(ts)], touch), giveUp: true})
}

// end commits the last transitions of a drive.
func (l *Lease) end(ctx context.Context, ts []Transition) error {
	nothing := l.fate.isOver() || len(ts) == 1 && !(l.Taken() && l.holds())
	l.note(func(c *course) { c.givingUp = true })
	if nothing {
		return nil
	}
	return l.update(ctx, ts...)
}

// AwaitCommits waits for the commits that returned ErrGoesOn, and returns what
// became of them.
func (l *Lease) AwaitCommits(ctx context.Context) error { return l.slot.awaitIdle(ctx) }

// Busy reports whether a commit is under way, perhaps without its caller.
func (l *Lease) Busy() bool { return l.slot.busy() }

// update commits transitions. The caller has the slot.
func (l *Lease) update(ctx context.Context, ts ...Transition) error {
	if err := l.standing(); err != nil {
		return err
	}
	l.clock.sending()
	return l.updated(l.head.update(ctx, l.before, l.after, ts...))
}

// goOn goes on with an update whose caller waits no more. The goroutine has the
// slot.
func (l *Lease) goOn(ctx context.Context, ts ...Transition) error {
	return l.updated(l.head.carryOn(ctx, l.before, l.after, ts))
}

// updated notes how an update ended.
func (l *Lease) updated(err error) error {
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, ErrDeleted),
		errors.Is(err, ErrBusy), errors.Is(err, ErrWrongUser):
		return l.fate.lose(err)
	case err == nil:
		sent := l.clock.stored(!l.store.exclusive && l.holds())
		l.note(func(c *course) { c.taken, c.rides = true, false })
		l.news.wrote(sent)
		l.clock.start()
		l.store.changed(l.id)
	}
	return err
}
