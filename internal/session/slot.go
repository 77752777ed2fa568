package session

import (
	"context"
	"errors"
	"fmt"
)

// A drive's changes are made one at a time, by who has its slot. The slot is
// awaited with a context, and no lock is held over the engine. A caller that
// can't wait any longer leaves: what it was about to do is left to the one who
// has the slot, and what it had begun to a goroutine that carries it on. So a
// caller is back at once although the engine hangs; and what was to be stored
// is stored, if the engine answers while the lease lasts.

// ErrGoesOn is the error of a commit whose caller's context ended before the
// engine had answered. The drive goes on with it.
var ErrGoesOn = errors.New("session: the commit goes on without its caller")

// errCutOff is what Settled tells of a goroutine that the engine has ended.
var errCutOff = errors.New("session: the storage engine panicked, or ended the goroutine that had called it")

// task is something that the drive is to do with its slot.
type task struct {
	ts    []Transition // to commit
	drop  bool         // what rides
	leave bool         // then the drive ends
}

// Update commits transitions, with all that rides. A lease that was lost is
// ErrFenced. Ctx bounds how long the caller waits, and not the commit: if it
// ends first, the error is ErrGoesOn, and the caller must not look at what the
// transitions would have told it.
func (d *Drive) Update(ctx context.Context, ts ...Transition) error {
	if !d.enter(ctx) {
		return d.leaveTo(ctx, task{ts: clone(ts)})
	}
	returned := false
	defer d.unwind(&returned)
	err := d.update(ctx, ts...)
	returned = true
	if errors.Is(err, errLeft) {
		return d.goesOn(ctx, task{ts: clone(ts)})
	}
	d.exit()
	return err
}

func clone(ts []Transition) []Transition { return append([]Transition(nil), ts...) }

// commit is Update for what needn't be done once its caller has left.
func (d *Drive) commit(ctx context.Context, ts ...Transition) error {
	if !d.enter(ctx) {
		return context.Cause(ctx)
	}
	returned := false
	defer d.unwind(&returned)
	err := d.update(ctx, ts...)
	returned = true
	if errors.Is(err, errLeft) {
		return d.goesOn(ctx, task{ts: clone(ts)})
	}
	d.exit()
	return err
}

// do is Update for a task.
func (d *Drive) do(ctx context.Context, t task) error {
	if !d.enter(ctx) {
		return d.leaveTo(ctx, t)
	}
	returned := false
	defer d.unwind(&returned)
	err := d.perform(ctx, t, false)
	returned = true
	if errors.Is(err, errLeft) {
		return d.goesOn(ctx, t)
	}
	d.exit()
	return err
}

// alone calls f with the slot.
func (d *Drive) alone(ctx context.Context, f func() error) error {
	if !d.enter(ctx) {
		return context.Cause(ctx)
	}
	returned := false
	defer d.unwind(&returned)
	err := f()
	returned = true
	if errors.Is(err, errLeft) { // in a commit that f had begun
		return d.goesOn(ctx, task{})
	}
	d.exit()
	return err
}

// enter takes the slot, and reports whether it got it before ctx ended.
func (d *Drive) enter(ctx context.Context) bool {
	select {
	case d.slot <- struct{}{}:
		return true
	default:
	}
	select {
	case d.slot <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// exit gives the slot up, when what others have left to do is done.
func (d *Drive) exit() {
	if d.free() {
		return
	}
	go d.work(d.alive(), nil)
}

// free gives the slot up, unless there is something left to do.
func (d *Drive) free() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.later) > 0 {
		return false
	}
	<-d.slot
	return true
}

// unwind gives the slot up where what its goroutine did with it has not
// returned: the engine has panicked, or ended the goroutine. The drive goes on,
// and finds out what is stored.
func (d *Drive) unwind(returned *bool) {
	if !*returned {
		d.head.cutOff()
		d.note(errCutOff)
		d.exit()
	}
}

// leaveTo leaves a task to who has the slot, or gets it next.
func (d *Drive) leaveTo(ctx context.Context, t task) error {
	d.mu.Lock()
	d.later = append(d.later, t)
	d.mu.Unlock()
	select {
	case d.slot <- struct{}{}: // it was given up meanwhile
		d.exit()
	default:
	}
	return fmt.Errorf("%w: %w", ErrGoesOn, context.Cause(ctx))
}

// goesOn leaves the slot, and a task that was begun with it, to a goroutine.
func (d *Drive) goesOn(ctx context.Context, t task) error {
	go d.work(d.alive(), &t)
	return fmt.Errorf("%w: %w", ErrGoesOn, context.Cause(ctx))
}

// alive returns a context for what goes on without its caller. It ends with
// Abandon.
func (d *Drive) alive() context.Context {
	ctx, cancel := context.WithCancel(d.lasting)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.behind != nil {
		d.behind()
	}
	d.behind = cancel
	if d.lost {
		cancel()
	}
	return ctx
}

// work goes on with a task that was begun, and with all that others left, and
// gives the slot up.
func (d *Drive) work(ctx context.Context, begun *task) {
	returned := false
	defer d.unwind(&returned)
	if begun != nil {
		d.note(d.perform(ctx, *begun, true))
	}
	for !d.free() {
		d.mu.Lock()
		t := d.later[0]
		d.later = d.later[1:]
		d.mu.Unlock()
		d.note(d.perform(ctx, t, false))
	}
	returned = true
}

// note keeps an error whose caller has left.
func (d *Drive) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = errors.Join(d.failed, err)
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

// Leave ends the drive with the transitions given, whatever is left to do. Of a
// drive that committed nothing, and has nothing to commit, no trace is left. It
// waits no longer than ctx; then the error is ErrGoesOn, and the lease is given
// up when it is done.
func (d *Drive) Leave(ctx context.Context, ts ...Transition) error {
	return d.do(ctx, task{ts: append(ts[:len(ts):len(ts)], touch), leave: true})
}

// end commits the last transitions of a drive.
func (d *Drive) end(ctx context.Context, ts []Transition) error {
	held := d.holds()
	d.mu.Lock()
	nothing := d.lost || d.released || len(ts) == 1 && !(d.taken && held)
	d.leaving = true
	d.mu.Unlock()
	if nothing {
		return nil
	}
	return d.update(ctx, ts...)
}

// Settled waits until nothing is under way any more of what ErrGoesOn was told,
// and returns what became of it.
func (d *Drive) Settled(ctx context.Context) error {
	if !d.enter(ctx) {
		return context.Cause(ctx)
	}
	d.exit()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.failed
	d.failed = nil
	return err
}

// Busy reports whether something is under way, perhaps without its caller.
func (d *Drive) Busy() bool { return len(d.slot) > 0 }

// update commits transitions. The caller has the slot.
func (d *Drive) update(ctx context.Context, ts ...Transition) error {
	if err := d.standing(); err != nil {
		return err
	}
	at := d.store.moment()
	d.mu.Lock()
	d.sent = at
	d.mu.Unlock()
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
		return d.lose(err)
	case err == nil:
		held := !d.store.exclusive && d.holds()
		d.mu.Lock()
		d.held = held
		d.taken, d.rides, d.renewed, d.known = true, false, d.sent, d.sent
		d.mu.Unlock()
		d.beat()
		d.store.local.Signal(d.followed)
	}
	return err
}
