package session

import (
	"context"
	"errors"
)

// What a drive does with its slot.

// Update commits transitions, with all that rides. A lease that was lost is
// ErrFenced. Ctx bounds how long the caller waits, and not the commit: if it
// ends first, the error is ErrGoesOn, and the caller must not look at what the
// transitions would have told it.
func (d *Drive) Update(ctx context.Context, ts ...Transition) error {
	if !d.slot.enter(ctx) {
		return d.slot.leaveTo(ctx, task{ts: clone(ts)})
	}
	return d.entered(ctx, ts)
}

// commit is Update for what needn't be done once its caller has left.
func (d *Drive) commit(ctx context.Context, ts ...Transition) error {
	if !d.slot.enter(ctx) {
		return context.Cause(ctx)
	}
	return d.entered(ctx, ts)
}

// entered is Update for a caller that has the slot.
func (d *Drive) entered(ctx context.Context, ts []Transition) error {
	err := d.slot.use(func() error { return d.update(ctx, ts...) })
	if errors.Is(err, errLeft) {
		return d.slot.goesOn(ctx, task{ts: clone(ts)})
	}
	return err
}

// do is Update for a task.
func (d *Drive) do(ctx context.Context, t task) error {
	if !d.slot.enter(ctx) {
		return d.slot.leaveTo(ctx, t)
	}
	err := d.slot.use(func() error { return d.perform(ctx, t, false) })
	if errors.Is(err, errLeft) {
		return d.slot.goesOn(ctx, t)
	}
	return err
}

// alone calls f with the slot.
func (d *Drive) alone(ctx context.Context, f func() error) error {
	if !d.slot.enter(ctx) {
		return context.Cause(ctx)
	}
	err := d.slot.use(f)
	if errors.Is(err, errLeft) { // in a commit that f had begun
		return d.slot.goesOn(ctx, task{})
	}
	return err
}

// perform does a task, or goes on with one that was begun.
func (d *Drive) perform(ctx context.Context, t task, begun bool) (err error) {
	over := true // also if the engine ends this goroutine
	if t.leave {
		defer func() {
			if over {
				d.Release()
			}
		}()
	}
	switch {
	case t.drop:
		return d.drop(ctx)
	case begun:
		err = d.goOn(ctx, t.ts...)
	case t.leave:
		err = d.end(ctx, t.ts)
	default:
		err = d.update(ctx, t.ts...)
	}
	over = begun || !errors.Is(err, errLeft)
	return err
}

func (d *Drive) cutOff()      { d.head.cutOff() }
func (d *Drive) isLost() bool { return d.fate.isLost() }

// Leave ends the drive with the transitions given, whatever is left to do. Of a
// drive that committed nothing, and has nothing to commit, no trace is left. It
// waits no longer than ctx; then the error is ErrGoesOn, and the lease is given
// up when it is done.
func (d *Drive) Leave(ctx context.Context, ts ...Transition) error {
	return d.do(ctx, task{ts: append(ts[:len(ts):len(ts)], touch), leave: true})
}

// end commits the last transitions of a drive.
func (d *Drive) end(ctx context.Context, ts []Transition) error {
	nothing := d.fate.isOver() || len(ts) == 1 && !(d.Taken() && d.holds())
	d.note(func(c *course) { c.leaving = true })
	if nothing {
		return nil
	}
	return d.update(ctx, ts...)
}

// Settled waits until nothing is under way any more of what ErrGoesOn was told,
// and returns what became of it.
func (d *Drive) Settled(ctx context.Context) error { return d.slot.settled(ctx) }

// Busy reports whether something is under way, perhaps without its caller.
func (d *Drive) Busy() bool { return d.slot.busy() }

// update commits transitions. The caller has the slot.
func (d *Drive) update(ctx context.Context, ts ...Transition) error {
	if err := d.standing(); err != nil {
		return err
	}
	d.clock.sending()
	return d.updated(d.head.update(ctx, d.before, d.after, ts...))
}

// goOn goes on with an update whose caller has left.
func (d *Drive) goOn(ctx context.Context, ts ...Transition) error {
	return d.updated(d.head.carryOn(ctx, d.before, d.after, ts))
}

// updated takes note of how an update ended.
func (d *Drive) updated(err error) error {
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, ErrDeleted), errors.Is(err, ErrBusy), errors.Is(err, ErrWrongUser):
		return d.fate.lose(err)
	case err == nil:
		sent := d.clock.stored(!d.store.exclusive && d.holds())
		d.note(func(c *course) { c.taken, c.rides = true, false })
		d.news.wrote(sent)
		d.clock.start()
		d.store.local.Signal(d.followed)
	}
	return err
}
