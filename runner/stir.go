package runner

import (
	"context"
	"errors"
	"iter"

	"github.com/fermata-ai/fermata/internal/session"
)

// What goes on below a session.

// stir starts what has work below a session, and reports whether anything below
// it goes on: here, in another process, or on its way to its parent. Children
// that the session goes on without are started too, and are not waited for. Of
// those whose models are called again later, it returns the first.
func (rn *Runner) stir(
	ctx context.Context, st *session.State,
) (going bool, delayed *session.State, err error) {
	if st.OwesBy(rn.store.Now()) {
		rn.courier.send(st.Owing())
	}
	for _, id := range st.Run.Leaving {
		if err := rn.busyChild(ctx, id, rn.startChild); err != nil && !unreadable(err) {
			return going, nil, err
		}
	}
	err = rn.eachBusy(ctx, st, func(child *session.State, is doing) {
		switch {
		case is == lacks:
		case is != delays:
			going = true
			rn.startChild(child, is)
		case delayed == nil || child.Retry.At.Before(delayed.Retry.At):
			delayed = child
		}
	})
	if going {
		err = nil // it comes again when nothing else is left
	}
	return going, delayed, err
}

// startChild starts what has work in a child.
func (rn *Runner) startChild(child *session.State, is doing) {
	switch is {
	case owes:
		rn.courier.send(child.Owing())
	case works:
		rn.children.start(child.Root(), child.ID)
	}
}

// stirLeft starts what has work in children that their session goes on without.
func (rn *Runner) stirLeft(left []string) {
	for _, id := range left {
		if err := rn.busyChild(rn.closing, id, rn.startChild); err != nil && rn.closing.Err() == nil {
			rn.options.Logger.Warn("a child whose call has ended can't be carried to its end here",
				"session", id, "error", err)
		}
	}
}

// unreadable reports whether one session can't be read, though the store can.
func unreadable(err error) bool {
	return isAny(err, session.ErrCorrupt, session.ErrNewerVersion)
}

// doing is what goes on in a child.
type doing int

const (
	owes   doing = iota // it has to tell others something
	driven              // a drive has it
	works               // it has work that no drive has taken up
	delays              // it has work, but its model is to be called again later
	lacks               // it has work, and its agent isn't here
)

// eachBusy visits the children below a session in which something goes on, or
// would if their agents were here. One of which two things are true is
// visited twice. It looks below children that wait. What can't be read, a child
// or something that it needs, keeps it from no other; the error is returned at
// the end.
func (rn *Runner) eachBusy(
	ctx context.Context, st *session.State, visit func(*session.State, doing),
) (damage error) {
	for child, err := range rn.awaitedChildren(ctx, st) {
		if err == nil {
			err = rn.busyChild(ctx, child, visit)
		}
		switch {
		case err == nil:
		case !unreadable(err):
			return err
		case damage == nil:
			damage = err
		}
	}
	return damage
}

// awaitedChildren lists the children that calls of a session wait for, and, if
// one awaits handles or the run does, all handles that are open.
func (rn *Runner) awaitedChildren(
	ctx context.Context, st *session.State,
) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i := range st.Calls {
			if c := &st.Calls[i]; c.Child != "" && !yield(c.Child, nil) {
				return
			}
		}
		if st.Handles == 0 || len(st.Awaiting()) == 0 && !st.Lingering() {
			return
		}
		for h, err := range rn.store.AllHandles(ctx, st.ID) {
			if (err != nil || h.Open()) && !yield(h.Child, err) || err != nil {
				return
			}
		}
	}
}

// busyChild is eachBusy for one child and what is below it.
func (rn *Runner) busyChild(
	ctx context.Context, id string, visit func(*session.State, doing),
) error {
	child, err := rn.store.Load(ctx, id)
	if errors.Is(err, session.ErrUnknownSession) {
		return nil
	}
	if err != nil {
		return err
	}
	if rn.courier.able(child).Owes() {
		visit(child, owes)
	}
	// The parent waits for the end. For the rest that can't be told, nothing
	// does.
	damage := rn.courier.untold(child)
	held, _ := rn.store.Driven(child)
	step := rn.store.Next(child)
	switch {
	case held:
		visit(child, driven)
	case step.HasWork() && rn.agents[child.Agent] == nil:
		visit(child, lacks)
	case step.Working(), rn.returned(child):
		if err = rn.children.unread(id); err == nil {
			visit(child, works)
		} else {
			damage = err
		}
	case step.Kind == session.StepRetry:
		visit(child, delays)
	default:
		if err = rn.eachBusy(ctx, child, visit); err != nil {
			damage = err
		}
	}
	return damage
}
