package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// What Check looks at of handles: their records, what their parent counts of
// them, the awaits and notices, and what bodies have produced.

// handles reports what is wrong with the handles of a session.
func (c *check) handles(ctx context.Context, st *State) error {
	var n handleCounts
	var w waitCheck
	unread := false
	for e, err := range c.store.scan(ctx, kvstore.Key("z", st.ID)) {
		var h Handle
		if err == nil {
			if err = decode(e.Key, e.Value, &h); err != nil {
				unread = true
				err = c.judge(st.ID, keyName(e.Key), err)
			} else {
				err = c.handle(ctx, st, &h)
			}
		}
		if err != nil {
			return err
		}
		w.add(st.ID, &h)
		if !h.Open() {
			continue
		}
		n.open++
		if h.Kept {
			n.kept++
		}
		if h.Policy.NewContent {
			n.telling++
		}
		if st.lingersFor(&h) {
			n.lingered++
		}
	}
	if !unread {
		if err := c.counted(st, n); err != nil {
			return err
		}
		if err := c.waitsListed(ctx, st, &w); err != nil {
			return err
		}
	}
	for _, look := range []func(context.Context, *State) error{
		c.begun, c.awaits, c.notices, c.contents,
	} {
		if err := look(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// handleCounts are counted of the records of handles that are open.
type handleCounts struct{ open, kept, telling, lingered int }

// counted reports counts of the head that are not those of the records.
func (c *check) counted(st *State, n handleCounts) error {
	if st.Handles != n.open || st.Kept != n.kept || st.Telling != n.telling {
		return c.report(st.ID, "head", "%d handles are open, %d of them kept, of %d the content is "+
			"told, and their records have %d, %d and %d", st.Handles, st.Kept, st.Telling,
			n.open, n.kept, n.telling)
	}
	if l := st.Linger; l != nil && l.Open != n.lingered {
		return c.report(st.ID, "head", "its run lingers for %d handles, and %d records have that",
			l.Open, n.lingered)
	}
	return nil
}

// handle reports a record whose child is not there, or is another one's, or has
// told an end that the record doesn't have.
func (c *check) handle(ctx context.Context, st *State, h *Handle) error {
	key := keyName(handleKey(st.ID, h.Name))
	child, err := c.store.Load(ctx, h.Child)
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerVersion): // reported with its head
		return nil
	case errors.Is(err, ErrUnknownSession) && h.Open():
		return c.report(st.ID, key, "it is open, and its session %q is not there", h.Child)
	case errors.Is(err, ErrUnknownSession): // a caller deleted it, long ago
		return nil
	case err != nil:
		return err
	case child.Parent == nil || child.Parent.Handle != h.Name ||
		child.Parent.step().Session != st.ID:
		return c.report(st.ID, key, "%q is no handle of that name", h.Child)
	case h.Notice > st.Notices:
		return c.report(st.ID, key, "it has notice %d of %d", h.Notice, st.Notices)
	case h.Open() && child.hasTold():
		return c.report(st.ID, key, "it is open, and its session %q has told that it ended",
			h.Child)
	case child.Deleted.IsZero() && child.Call(h.Call) == nil:
		return c.report(st.ID, key, "its session %q has no call %s", h.Child, h.Call)
	}
	return nil
}

// hasTold reports whether a child's end has reached its parent.
func (s *State) hasTold() bool { return s.Parent != nil && s.Parent.Told && !s.Tells() }

// begun reports the session of a handle that goes on, and that its parent
// doesn't know.
func (c *check) begun(ctx context.Context, st *State) error {
	if !st.isHandle() || st.Parent.Told {
		return nil
	}
	step, name := st.Parent.step(), st.Parent.Handle
	parent, err := c.store.Load(ctx, step.Session)
	switch {
	case errors.Is(err, ErrUnknownSession):
		return c.report(st.ID, "head", "its parent %q is not there", step.Session)
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerVersion): // reported with its head
		return nil
	case err != nil:
		return err
	case !parent.Deleted.IsZero(): // which takes this one along
		return nil
	}
	h := new(Handle)
	found, err := c.store.read(ctx, handleKey(parent.ID, name), h)
	switch {
	case errors.Is(err, ErrCorrupt): // reported with the parent
		return nil
	case err != nil:
		return err
	case !found || h.Child != st.ID || !h.Open():
		return c.report(st.ID, "head", "its parent %q has no open handle %q that is this session",
			parent.ID, name)
	}
	return nil
}

// awaits reports pauses that wait for handles that don't know of them, or that
// have counted otherwise than the records. Such a pause would never end.
func (c *check) awaits(ctx context.Context, st *State) error {
	for i := range st.Calls {
		call := &st.Calls[i]
		if call.Status != Pending || call.Pause.Await == nil {
			continue
		}
		what, err := c.awaited(ctx, st, call)
		if err == nil && what != "" {
			err = c.report(st.ID, "call "+call.ID, "%s", what)
		}
		if err = c.judge(st.ID, "call "+call.ID, err); err != nil {
			return err
		}
	}
	return nil
}

// awaited returns what is wrong with one await.
func (c *check) awaited(ctx context.Context, st *State, call *Call) (what string, err error) {
	a := call.Pause.Await
	if a.Scope != "" {
		return c.awaitedWaits(ctx, st, call)
	}
	list, err := c.store.Awaited(ctx, st.ID, a)
	if err != nil {
		return "", err
	}
	all, left, one := 0, 0, false
	for n, w := range list {
		stopped, well := false, false
		if n < a.Registered {
			var h Handle
			found, err := c.store.read(ctx, handleKey(st.ID, w.Name), &h)
			if err != nil {
				return "", err
			}
			stopped = !found || h.Child != w.Child || !h.Open()
			well = found && h.Child == w.Child && h.endedWell()
			if !stopped && !h.awaitedBy(call) {
				return fmt.Sprintf("it awaits handle %q, whose record doesn't know of that",
					w.Name), nil
			}
		}
		if w.All && !stopped {
			all++
		}
		if w.Any && !stopped && a.Success {
			left++
		}
		one = one || w.Any && stopped && (well || !a.Success)
	}
	if a.All != all || a.AnyDone != one || a.AnyLeft != left {
		return fmt.Sprintf("it awaits %d handles more, and by the records it is %d", a.All, all),
			nil
	}
	return "", nil
}

// awaitedBy reports whether the handle's record has the open pause of a call.
func (h *Handle) awaitedBy(call *Call) bool {
	for _, by := range h.Awaits {
		if by.Call == call.ID && by.Pause == call.Pauses {
			return true
		}
	}
	return false
}

// notices reports notices that are missing, can't be read, or aren't counted in
// the head.
func (c *check) notices(ctx context.Context, st *State) error {
	next := st.NoticesGone + 1
	for e, err := range c.store.scan(ctx, kvstore.Key("y", st.ID)) {
		if err != nil {
			return err
		}
		if !endsWith(e.Key, padded(next, 8)) || next > st.Notices {
			return c.report(st.ID, keyName(e.Key), "it is not notice %d of %d", next, st.Notices)
		}
		next++
		err := c.judge(st.ID, keyName(e.Key), decode(e.Key, e.Value, new(notice)))
		if err != nil {
			return err
		}
	}
	if next <= st.Notices {
		return c.report(st.ID, "head", "notice %d of %d is missing", next, st.Notices)
	}
	return nil
}

// contents reports what bodies have produced that can't be read, or is of no
// call.
func (c *check) contents(ctx context.Context, st *State) error {
	for e, err := range c.store.scan(ctx, kvstore.Key("q", st.ID)) {
		if err != nil {
			return err
		}
		call := lastPart(e.Key)
		known := st.Call(call) != nil
		err := decode(e.Key, e.Value, new(Content))
		if err == nil && !known {
			known, err = c.store.read(ctx, recordKey(st.ID, call), new(Record))
		}
		if err == nil && !known {
			err = c.report(st.ID, keyName(e.Key), "it is what a call produced that is not there")
		}
		if err = c.judge(st.ID, keyName(e.Key), err); err != nil {
			return err
		}
	}
	return nil
}

// strays reports records of a kind whose session isn't there. What names what
// they are of, and their keys have so many parts. The look takes one read for
// each session that has some, and not for each record.
func (c *check) strays(ctx context.Context, kind, what string, want int) error {
	for r := (kvstore.Range{Prefix: kvstore.Key(kind), Limit: 1}); ; {
		page, err := c.store.kv.Scan(ctx, r)
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		e := page.Entries[0]
		r.After = e.Key
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != want {
			if err := c.report("", keyName(e.Key), "it is no record of %s", what); err != nil {
				return err
			}
			continue
		}
		_, err = c.store.kv.Get(ctx, headKey(parts[1]))
		if errors.Is(err, kvstore.ErrNotFound) {
			err = c.report(parts[1], keyName(e.Key), "its session is not there")
		}
		if err != nil {
			return err
		}
		r.After = append(kvstore.Key(kind, parts[1]), 0xff) // behind all that the session has
	}
}
