package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// family is a session and all below it, as the caller of a Run sees it: the
// session's own drives, one after the other, and between them what its children
// do. While all its calls wait, no drive holds the session. The family follows
// its children then, and takes the session again once it has work. It ends when
// all of it waits for the outside.
//
// The goroutine that ranges over the events owns it.
type family struct {
	rn    *Runner
	ctx   context.Context // of the caller
	root  string
	yield func(event.Event, error) bool
	end   event.End // of the last drive

	ear    *ear   // nil: nothing below the session has ever been
	deafen func() // ends the listening
	queue  bool   // its drives take the messages that begin runs
	left   bool   // the caller has left
	lacks  []lack // what waits below for agents that aren't here
	waits  bool   // what came before the drives was refused, and is to be tried again
	// delayed is, once nothing goes on, the first child whose model is called
	// again later, or nil.
	delayed *session.State
}

// run takes a drive of the session to its end, and goes on from there. Without
// a drive it begins with what is below the session. Before runs first. If that
// is refused because calls wait, and children have work that no drive has taken
// up, it is tried again once they have done it: what was answered counts first.
func (f *family) run(d *drive, before func(*drive) error) {
	defer func() {
		if f.deafen != nil {
			f.deafen()
		}
	}()
	f.end.Finish = event.FinishPaused
	var err error
	for first := true; d != nil || first; first = false {
		if d == nil || d.mayNest() {
			f.listen()
		}
		if d != nil {
			d.screen.yield, d.screen.ear = f.yield, f.ear
			if f.end, err = d.toTheEnd(of(before, d)); d.screen.left {
				return
			}
		}
		var again bool
		if d, again, err = f.next(d, before, err); f.left {
			return
		}
		if !again {
			before = nil
		}
	}
	if !f.hear() {
		return
	}
	for _, l := range f.lacks {
		if !f.yield(event.Clone(l.undriven()), nil) {
			return
		}
	}
	if err != nil && !f.yield(nil, err) {
		return
	}
	f.yield(f.end, nil)
}

// listen has the family hear its children, from the first time on.
func (f *family) listen() {
	if f.ear == nil {
		f.ear, f.deafen = f.rn.children.listen(f.root)
	}
}

// next returns the drive that follows one, which has ended with err; nil: none
// does. Again: what came before that one is tried again.
func (f *family) next(
	d *drive, before func(*drive) error, err error,
) (next *drive, again bool, _ error) {
	var pending *session.PendingError
	switch {
	case before != nil && f.ear != nil && errors.As(err, &pending):
		again, waitErr := f.retries(pending)
		if !again {
			return nil, false, errors.Join(err, waitErr)
		}
		next, err = f.drive()
		return next, true, err
	case err != nil:
		// The drive was stopped just as it began to wait for a child.
		if f.hasLeft(err) && f.end.Finish == event.FinishPaused &&
			slices.ContainsFunc(f.end.Pending, asksAgent) {
			f.end.Finish = event.FinishInterrupted
		}
	case f.end.Finish == event.FinishHandedOver && f.rn.agents[d.headAgent()] != nil:
		next, err = f.drive()
	// Or else a child was so fast that its end came when the drive had just
	// given the session up.
	case f.ear != nil && (f.end.Finish == event.FinishPaused ||
		f.end.Finish == event.FinishElsewhere):
		if next, err = f.follow(); next == nil && !f.left {
			f.end, err = f.standing(err)
		}
	// The same of what no child tells: an answer, or the end of a wait handle.
	case f.ear == nil && d != nil && d.closing.outrun:
		if next, err = f.drive(); isAny(err, session.ErrBusy, ErrClosed) {
			next, err = nil, nil // another one carries it on
		}
	}
	return next, false, err
}

// drive returns a drive of the session.
func (f *family) drive() (*drive, error) {
	d, err := f.rn.newDrive(f.ctx, f.root, nil)
	if err == nil {
		d.queue = f.queue
	}
	return d, err
}

// hasWork reports whether the session has work that this family does.
func (f *family) hasWork(st *session.State) bool {
	step := f.rn.store.Next(st)
	return step.Working() && (f.queue || step.Kind != session.StepSay || !st.Between())
}

// of is before, for that drive.
func of(before func(*drive) error, d *drive) func() error {
	if before == nil {
		return nil
	}
	return func() error { return before(d) }
}

// retries reports whether what came before the drives, and was refused since
// these calls wait, is to be tried again: one of them waits no more, or the
// children have done what they had to do, which is waited for.
func (f *family) retries(refused *session.PendingError) (again bool, err error) {
	changed, stop := f.rn.store.WatchAll(f.root)
	defer stop()
	for waited := false; ; waited = true {
		if !f.hear() {
			return false, errLeft
		}
		busy := f.rn.children.busy(f.root) // asked first, see follow
		st, err := f.rn.store.Load(f.ctx, f.root)
		if err != nil || movedOn(st, refused.Pending) {
			return err == nil, err
		}
		undone, err := f.undone(st)
		if err != nil {
			return false, err
		}
		if !undone && !(f.waits && busy) {
			return waited, nil
		}
		f.waits = true
		if err := f.wait(changed); err != nil {
			return false, err
		}
	}
}

// undone starts what has work below a session, and reports whether there is
// such work, or other that is waited for already. What is tried again later,
// since its drives died, is left alone.
func (f *family) undone(st *session.State) (undone bool, err error) {
	err = f.rn.eachBusy(f.ctx, st, func(child *session.State, is doing) {
		switch is {
		case owes:
			f.rn.courier.send(child.Owing())
		case driven:
			undone = undone || f.waits
			return
		case lacks, delays:
			return
		case works:
			if f.rn.store.TriedAgain(child).After(f.rn.store.Now()) {
				return
			}
			f.rn.children.start(f.root, child.ID)
		}
		undone = true
	})
	if undone {
		err = nil // it comes again when nothing else is left
	}
	return undone, err
}

// movedOn reports whether one of the session's own pauses among these is over.
func movedOn(st *session.State, pauses []tool.Pause) bool {
	return slices.ContainsFunc(pauses, func(p tool.Pause) bool {
		c := st.Call(p.Call)
		return p.Session == st.ID &&
			(c == nil || c.Status != session.Pending || c.Pauses != p.Number)
	})
}

// errElsewhere: another drive has the session.
var errElsewhere = errors.New("another drive has the session")

// standing returns the last event of a family that stopped for cause, without a
// drive of its own: nil, if all of it waits.
func (f *family) standing(cause error) (event.End, error) {
	left := f.hasLeft(cause)
	elsewhere := errors.Is(cause, errElsewhere)
	if elsewhere {
		cause = nil
	}
	why := cause
	if left {
		why = errLeft // nothing has failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), f.rn.options.CloseTimeout)
	defer cancel()
	end, err := f.rn.ending(ctx, f.root, why)
	if end.Finish == event.FinishPaused {
		switch {
		case left: // or else it would have ended by itself
			end.Finish = event.FinishInterrupted
		case elsewhere:
			end.Finish = event.FinishElsewhere
		default:
			err = errors.Join(err, f.tellLacks(ctx, &end))
			f.tellDelay(&end)
		}
	}
	return end, errors.Join(cause, err)
}

// hasLeft reports whether a family that stops for cause does so because its
// caller has left, or the runner ends.
func (f *family) hasLeft(cause error) bool {
	return f.ctx.Err() != nil || errors.Is(cause, ErrClosed)
}

// tellLacks notes in the last event what waits for agents that aren't here.
func (f *family) tellLacks(ctx context.Context, end *event.End) error {
	st, err := f.rn.store.Load(ctx, f.root)
	if err != nil {
		return err
	}
	f.lacks, err = f.rn.lacking(ctx, st)
	for _, l := range f.lacks {
		end.Parked = append(end.Parked, l.Parked)
	}
	return err
}

// tellDelay turns the last event into that of a delay, if nothing is waited for
// but models below that are called again later.
func (f *family) tellDelay(end *event.End) {
	others := func(p tool.Pause) bool { return !asksAgent(p) }
	if f.delayed == nil || len(end.Parked) > 0 || slices.ContainsFunc(end.Pending, others) {
		return
	}
	end.Finish, end.Why = event.FinishDelayed, f.delayed.Retry.Why
	end.Until = f.rn.store.Next(f.delayed).Until
}

// asksAgent reports whether a pause waits for the end of a child.
func asksAgent(p tool.Pause) bool { return p.Await.Reason == tool.ReasonAgent }

// hasParent reports whether a session is a child. One of an older store may have
// a child's id, and is none.
func (rn *Runner) hasParent(ctx context.Context, id string) bool {
	if !session.IsChild(id) {
		return false
	}
	st, err := rn.store.Load(ctx, id)
	return err == nil && st.Parent != nil
}

// carryOnAbove carries on the whole tree that a child belongs to. The child
// itself comes first: its parent may have gone on without it, and then nothing
// above leads to it.
func (rn *Runner) carryOnAbove(
	ctx context.Context, id string, yield func(event.Event, error) bool,
) {
	st, err := rn.store.Load(ctx, id)
	if err != nil {
		yield(nil, err)
		return
	}
	driven, _ := rn.store.Driven(st)
	if _, err := rn.agent(st.Agent); err != nil && !driven && rn.store.Next(st).Working() {
		yield(nil, err)
		return
	}
	rn.attend(id)
	(&family{rn: rn, ctx: ctx, root: st.Root(), yield: yield}).run(nil, nil)
}

// headAgent returns the session's agent, which another one may have handed it
// to.
func (d *drive) headAgent() string { return d.closing.agent() }

// mayNest reports whether the session's agent has tools that make children, or
// the session has some.
func (d *drive) mayNest() (may bool) {
	d.lease.View(func(st *session.State) { may = st.Children > 0 })
	return may || d.rn.nesting[d.agent.Name()] != nil
}

// hear shows what was heard of the children, and reports whether the caller
// still listens.
func (f *family) hear() bool {
	for _, ev := range f.ear.take() {
		if f.left = !f.yield(ev, nil); f.left {
			break
		}
	}
	return !f.left
}

// follow shows what the children do until the session has work, and returns a
// drive for that. If all of the tree waits for the outside, or another drive
// has the session, it returns none.
func (f *family) follow() (*drive, error) {
	changed, stop := f.rn.store.WatchAll(f.root)
	defer stop()
	var stirred time.Time
	for {
		if !f.hear() {
			return nil, errLeft
		}
		// Asked before the head is read: a child is driven until what it owes
		// is at least in its outbox.
		busy := f.rn.children.busy(f.root)
		st, err := f.rn.store.Load(f.ctx, f.root)
		if err != nil {
			return nil, err
		}
		driven, _ := f.rn.store.Driven(st)
		working := f.hasWork(st)
		switch {
		case !st.Deleted.IsZero():
			return nil, fmt.Errorf("%w: %q", session.ErrDeleted, f.root)
		case driven:
			return nil, errElsewhere
		case working:
			d, err := f.drive()
			if !errors.Is(err, session.ErrBusy) {
				return d, err
			}
		// Beside children that work here, others may have work that has no
		// drive: what was answered there is carried on as well.
		case !busy || time.Since(stirred) >= followEvery:
			stirred = time.Now()
			if going, err := f.goesOn(st); !busy && (err != nil || !going) {
				return nil, err
			}
		}
		if err := f.wait(changed); err != nil {
			return nil, err
		}
	}
}

// goesOn starts what has work below the session, and reports whether anything
// of the family goes on. While the heads are read one after the other, an end
// may pass from a child that is yet to be read to a parent that was read
// already. So what would tell of that is looked at once more afterwards, also
// if one of the children can't be read.
func (f *family) goesOn(st *session.State) (going bool, err error) {
	going, f.delayed, err = f.rn.stir(f.ctx, st)
	if going || err != nil && !unreadable(err) {
		return going, err
	}
	if f.rn.courier.busy(f.root) || f.rn.children.busy(f.root) {
		return true, nil
	}
	now, loadErr := f.rn.store.Load(f.ctx, f.root)
	switch {
	case loadErr != nil:
		return false, errors.Join(err, loadErr)
	case f.hasWork(now):
		return true, nil
	}
	return false, err
}

// wait returns when there may be something to do. What children say that are
// still driven here is shown meanwhile, and costs no read.
func (f *family) wait(changed <-chan struct{}) error {
	poll := time.NewTimer(followEvery)
	defer poll.Stop()
	for {
		select {
		case <-f.ear.more:
			if f.rn.children.busy(f.root) {
				if !f.hear() {
					return errLeft
				}
				continue
			}
		case <-changed:
		case <-poll.C: // what other processes do gives no signal
		case <-f.rn.closing.Done():
			return ErrClosed
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
		return nil
	}
}
