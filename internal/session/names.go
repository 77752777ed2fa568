package session

import (
	"fmt"
	"time"
)

// A name is only how a model, or a program, says which handle it means. What is
// done to a handle, and what is told of it, goes by its child: the name may have
// another one by then.

// freeName makes a name ready for another child. It refuses one that an open
// handle has, or a wait handle whose end is kept.
func (tx *Tx) freeName(name string) error {
	switch h, found, err := tx.handle(name); {
	case err != nil || !found:
		return err
	case h.Open():
		return fmt.Errorf("%w: %q, which %s has since %s", ErrNameTaken, name, h.Tool,
			h.Since.UTC().Format(time.RFC3339))
	case !h.isFree():
		return fmt.Errorf("%w: %q is a wait handle that has ended, and its end is still kept; "+
			"choose another name", ErrNameTaken, name)
	default:
		return tx.leaves(h)
	}
}

// isFree reports whether another handle may have the name. That of a wait handle
// is taken as long as its end is kept.
func (h *Handle) isFree() bool { return !h.Open() && h.Wait == nil }

// judgeNames marks the calls of a turn that can't have the handles that they
// name: of each name that several calls would begin, or that an open handle
// has and a call would begin once more, all calls that name it. Calls that make
// wait handles are judged one by one, as they are made, unless another kind of
// handle is to have the name.
func (tx *Tx) judgeNames() error {
	begun, makes := map[string]bool{}, map[string]int{}
	for i := range tx.Calls {
		c := &tx.Calls[i]
		if c.Action == ActionSpawn {
			begun[c.Handle] = true
		}
		if c.MakesHandle() {
			makes[c.Handle]++
		}
	}
	if err := tx.bindNames(); err != nil {
		return err
	}
	for name := range begun {
		h, found, err := tx.handle(name)
		if err != nil {
			return err
		}
		if makes[name] == 1 && !(found && h.Open()) {
			continue
		}
		for i := range tx.Calls {
			if c := &tx.Calls[i]; c.Handle == name {
				c.Clash = true
			}
		}
	}
	return nil
}

// bindNames binds the actions of a turn to the handles that have their names
// then: what the turn begins, from there on in call order, and before that what
// was begun last.
func (tx *Tx) bindNames() error {
	now := map[string]string{}
	for i := range tx.Calls {
		c := &tx.Calls[i]
		child, known := now[c.Handle]
		switch {
		case c.Handle == "":
			continue
		case c.Action == ActionSpawn:
			child = HandleID(c.ID)
		case !known:
			h, found, err := tx.handle(c.Handle)
			if err != nil {
				return err
			}
			switch {
			case found && !(c.Action == ActionCreate && h.isFree()):
				child = h.Child
			case c.Action == ActionCreate: // else another one has the name
				child = HandleID(c.ID)
			}
		}
		now[c.Handle], c.Bound = child, child
	}
	return nil
}
