package session

import (
	"context"
	"errors"
)

// A handle that has stopped is known by its name for a while, and its session
// is kept as long: what it came to stands there. First its parent forgets the
// name, and then the session is deleted. So no name leads to nothing. A session
// that is cut off between the two, or whose name has another handle by now, goes
// by itself.

// maxForgotten is how many names a commit forgets.
const maxForgotten = 40

// handles forgets names of handles that stopped long ago. A run that goes on may
// still refer to those that it has begun.
func (sw *sweep) handles(ctx context.Context, st *State) error {
	if st.Children == 0 || len(st.Calls) > 0 || st.Due {
		return nil
	}
	var old []Handle
	for h, err := range sw.store.AllHandles(ctx, st.ID) {
		if err != nil {
			return err
		}
		if !h.Open() && sw.now.Sub(h.Ended) > sw.keep.Handles {
			old = append(old, h)
		}
	}
	for len(old) > 0 {
		some := old[:min(len(old), maxForgotten)]
		old = old[len(some):]
		if err := sw.forget(ctx, st.ID, some); err != nil {
			return err
		}
	}
	return nil
}

// forget forgets some names, and deletes the sessions that had them.
func (sw *sweep) forget(ctx context.Context, parent string, some []Handle) error {
	var gone []string
	err := sw.store.Update(ctx, parent, func(tx *Tx) (err error) {
		gone, err = tx.forget(some)
		return err
	})
	if err != nil {
		return err
	}
	sw.swept.Handles += len(gone)
	var errs []error
	for _, child := range gone {
		st, err := sw.store.Load(ctx, child)
		if err == nil && st.Deleted.IsZero() {
			_, err = sw.delete(ctx, st)
		}
		if err != nil && !errors.Is(err, ErrUnknownSession) && len(errs) < maxSweepErrors {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// forget deletes the records of handles that have stopped, and returns the
// sessions of those. While a turn is open its calls may be about to tell of a
// handle, and what a notice is to tell stays until the model has read it.
func (tx *Tx) forget(some []Handle) (gone []string, err error) {
	if len(tx.Calls) > 0 || !tx.Deleted.IsZero() {
		return nil, nil
	}
	for i := range some {
		h, found, err := tx.handle(some[i].Name)
		if err != nil {
			return nil, err
		}
		if !found || h.Child != some[i].Child || !h.Told && tx.Notices > tx.NoticesTold {
			continue
		}
		tx.unlistWait(h)
		tx.delete(handleKey(tx.ID, h.Name))
		gone = append(gone, h.Child)
	}
	return gone, nil
}

// isNamed reports whether a session is the one that its parent knows by a name.
func (sw *sweep) isNamed(ctx context.Context, st *State) (bool, error) {
	if !st.isHandle() {
		return false, nil
	}
	var h Handle
	found, err := sw.store.read(ctx, handleKey(st.Parent.step().Session, st.Parent.Handle), &h)
	return found && h.Child == st.ID, err
}
