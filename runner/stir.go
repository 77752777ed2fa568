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
// that the session goes on without are started too, and are not waited for.
func (rn *Runner) stir(ctx context.Context, st *session.State) (going bool, err error) {
	if len(st.Outbox) > 0 {
		rn.courier.send(st.ID)
	}
	start := func(child *session.State, is doing) {
		switch is {
		case owes:
			rn.courier.send(child.ID)
		case works:
			rn.children.start(child.Root(), child.ID)
		}
	}
	for _, id := range st.Run.Leaving {
		if err := rn.busyChild(ctx, id, start); err != nil && !unreadable(err) {
			return going, err
		}
	}
	err = rn.eachBusy(ctx, st, func(child *session.State, is doing) {
		going = going || is != lacks
		start(child, is)
	})
	if going {
		err = nil // it comes again when nothing else is left
	}
	return going, err
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
	lacks               // it has such work, and its agent isn't here
)

// eachBusy visits the children below a session in which something goes on, or
// would if their agents were here. It looks below children that wait. One that
// can't be read keeps it from no other; its error is returned at the end.
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
	held, _ := rn.store.Driven(child)
	switch {
	case child.Owes():
		visit(child, owes)
	case held:
		visit(child, driven)
	case rn.store.Next(child).Working() && rn.agents[child.Agent] == nil:
		visit(child, lacks)
	case rn.store.Next(child).Working():
		visit(child, works)
	default:
		return rn.eachBusy(ctx, child, visit)
	}
	return nil
}
