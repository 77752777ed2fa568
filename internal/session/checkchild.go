package session

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/kvstore"
)

// What Check looks at of sessions below sessions.

// family reports a child that its parent wouldn't find, and calls that wait for
// a child that is not there.
func (c *check) family(ctx context.Context, st *State) error {
	if st.Parent != nil {
		key := childKey(st.Parent.step().Session, st.ID)
		_, err := c.store.kv.Get(ctx, key)
		if errors.Is(err, kvstore.ErrNotFound) {
			const what = "its entry among its parent's children is missing"
			err = c.report(st.ID, keyName(key), what)
		}
		if err != nil {
			return err
		}
	}
	for i := range st.Calls {
		call := &st.Calls[i]
		if call.Child == "" {
			continue
		}
		child, err := c.store.Load(ctx, call.Child)
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerVersion): // reported with its head
			continue
		case errors.Is(err, ErrUnknownSession):
			err = c.report(st.ID, "call "+call.ID, "it waits for %q, which is not there", call.Child)
		case err == nil && (child.Parent == nil || child.Parent.step().Session != st.ID ||
			child.Parent.step().Call != call.ID):
			err = c.report(st.ID, "call "+call.ID, "it waits for %q, which is not its child",
				call.Child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// children reports entries of the index of children that lead to none.
func (c *check) children(ctx context.Context) error {
	for e, err := range c.store.scan(ctx, kvstore.Key("f")) {
		if err != nil {
			return err
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 3 {
			err = c.report("", keyName(e.Key), "it is no entry of a child")
			if err != nil {
				return err
			}
			continue
		}
		st, err := c.store.Load(ctx, parts[2])
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerVersion): // reported with its head
			continue
		case err != nil && !errors.Is(err, ErrUnknownSession):
			return err
		case err == nil && st.Parent != nil && st.Parent.step().Session == parts[1]:
			continue
		}
		if err := c.report(parts[1], keyName(e.Key), "%q is not a child of it", parts[2]); err != nil {
			return err
		}
	}
	return nil
}
