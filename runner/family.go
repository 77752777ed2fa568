package runner

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
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
	ear   *ear // nil: nothing below the session has ever been
}

// run takes a drive of the session to its end, and goes on from there. Without
// a drive it begins with what is below the session. Before runs first. If that
// is refused because calls wait, and children have work that no drive has taken
// up, it is tried again once they have done it: what was answered counts first.
func (f *family) run(d *drive, before func(*drive) error) {
	end := event.End{Finish: event.FinishPaused}
	var err error
	for {
		if d != nil {
			if f.ear == nil && d.mayNest() {
				var stop func()
				f.ear, stop = f.rn.children.listen(f.root)
				defer stop()
			}
			d.screen.yield, d.screen.ear = f.yield, f.ear
			if end, err = d.toTheEnd(of(before, d)); d.screen.left {
				return
			}
			if before, err = f.retries(before, err); before != nil {
				end.Finish = event.FinishPaused
			}
			if end.Finish == event.FinishHandedOver && f.rn.agents[d.headAgent()] != nil {
				if d, err = f.rn.newDrive(f.ctx, f.root, nil); err == nil {
					continue
				}
			}
		} else if f.ear == nil {
			var stop func()
			f.ear, stop = f.rn.children.listen(f.root)
			defer stop()
		}
		if f.ear == nil || err != nil || end.Finish != event.FinishPaused {
			break
		}
		if d, err = f.follow(); errors.Is(err, errLeft) {
			return
		}
		if d == nil && err == nil && before != nil {
			if d, err = f.rn.newDrive(f.ctx, f.root, nil); err == nil {
				continue
			}
		}
		if d == nil {
			var endErr error
			end, endErr = f.rn.ending(context.WithoutCancel(f.ctx), f.root, err)
			err = errors.Join(err, endErr)
			break
		}
	}
	if !f.hear() || err != nil && !f.yield(nil, err) {
		return
	}
	f.yield(end, nil)
}

// of is before, for that drive.
func of(before func(*drive) error, d *drive) func() error {
	if before == nil {
		return nil
	}
	return func() error { return before(d) }
}

// retries returns before, and no error, if it was refused and is to be tried
// again.
func (f *family) retries(
	before func(*drive) error, refused error,
) (again func(*drive) error, err error) {
	if before == nil || f.ear == nil || !errors.Is(refused, session.ErrPending) {
		return nil, refused
	}
	st, err := f.rn.store.Load(f.ctx, f.root)
	undone := false
	if err == nil {
		err = f.eachBusy(st, func(child *session.State, is doing) {
			waits := is == works && f.rn.store.TriedAgain(child).After(f.rn.store.Now())
			undone = undone || is != driven && !waits
		})
	}
	switch {
	case err != nil:
		return nil, errors.Join(refused, err)
	case !undone:
		return nil, refused
	}
	return before, nil
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
		if !f.yield(ev, nil) {
			return false
		}
	}
	return true
}

// follow shows what the children do until the session has work, and returns a
// drive for that. If all of the tree waits for the outside, or another drive
// has the session, it returns none.
func (f *family) follow() (*drive, error) {
	changed, stop := f.rn.store.WatchAll(f.root)
	defer stop()
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
		working := f.rn.store.Next(st).Working()
		switch {
		case !st.Deleted.IsZero(), driven:
			return nil, nil
		case working:
			d, err := f.rn.newDrive(f.ctx, f.root, nil)
			if !errors.Is(err, session.ErrBusy) {
				return d, err
			}
		case !busy:
			if going, err := f.stir(st); err != nil || !going {
				return nil, err
			}
		}
		if err := f.wait(changed); err != nil {
			return nil, err
		}
	}
}

// wait returns when there may be something to do.
func (f *family) wait(changed <-chan struct{}) error {
	poll := time.NewTimer(followEvery)
	defer poll.Stop()
	select {
	case <-f.ear.more:
	case <-changed:
	case <-poll.C: // what other processes do gives no signal
	case <-f.rn.closing.Done():
		return ErrClosed
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
	return nil
}

// stir starts what has work below a session, and reports whether anything below
// it goes on: here, in another process, or on its way to its parent.
func (f *family) stir(st *session.State) (going bool, err error) {
	err = f.eachBusy(st, func(child *session.State, is doing) {
		going = true
		switch is {
		case owes:
			f.rn.courier.send(child.ID)
		case works:
			f.rn.children.start(f.root, child.ID)
		}
	})
	return going, err
}

// doing is what goes on in a child.
type doing int

const (
	owes   doing = iota // it has to tell others something
	driven              // a drive has it
	works               // it has work that no drive has taken up
)

// eachBusy visits the children below a session in which something goes on, but
// for those of agents that aren't here. It looks below children that wait.
func (f *family) eachBusy(st *session.State, visit func(*session.State, doing)) error {
	for i := range st.Calls {
		c := &st.Calls[i]
		if c.Child == "" || c.Status != session.Pending {
			continue
		}
		child, err := f.rn.store.Load(f.ctx, c.Child)
		if errors.Is(err, session.ErrUnknownSession) {
			continue
		}
		if err != nil {
			return err
		}
		held, _ := f.rn.store.Driven(child)
		switch {
		case child.Owes():
			visit(child, owes)
		case held:
			visit(child, driven)
		case f.rn.agents[child.Agent] == nil:
		case f.rn.store.Next(child).Working():
			visit(child, works)
		default:
			if err := f.eachBusy(child, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
