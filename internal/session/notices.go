package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// What the model is told of handles by itself. A notice is stored when something
// has happened, and stands for how the handle is when the model is told. New
// content has none: what there is of it is looked at when the model is asked,
// and so it costs no commit.

// notice is of a child. Its name may have another one when the model is told.
type notice struct {
	Name  string `json:"name"`
	Child string `json:"child"`
	// Awaits are the calls that counted the handle's end. The result of one
	// that is done has told it.
	Awaits []string `json:"awaits,omitempty"`
	// Handle is the record of the child, from when its name was given anew.
	Handle *Handle `json:"handle,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (n *notice) check() error {
	switch {
	case n.Name == "" || n.Child == "":
		return errIncomplete
	case n.Handle == nil:
		return nil
	case n.Handle.Child != n.Child || n.Handle.Name != n.Name || n.Handle.Open():
		return errors.New("it is of another handle than it keeps, or of an open one")
	}
	return n.Handle.check()
}

func noticeKey(session string, number int) []byte {
	return kvstore.Key("y", session, padded(number, 8))
}

// notify has the model told of a handle before its next answer. With wakes, a
// run doesn't end before that. Awaits have counted the handle's end.
func (tx *Tx) notify(h *Handle, wakes bool, awaits ...string) {
	tx.Notices++
	h.Notice = tx.Notices
	tx.putJSON(noticeKey(tx.ID, h.Notice), &notice{Name: h.Name, Child: h.Child, Awaits: awaits})
	if wakes {
		tx.Wakes = tx.Notices
	}
}

// atNotice changes the last notice of a handle, if the model isn't told of it.
func (tx *Tx) atNotice(h *Handle, change func(*notice)) error {
	if h.Told || h.Notice <= tx.NoticesTold {
		return nil
	}
	n, key := new(notice), noticeKey(tx.ID, h.Notice)
	found, err := tx.read(key, n)
	if err != nil || !found || n.Child != h.Child {
		return err
	}
	change(n)
	tx.putJSON(key, n)
	return nil
}

// leaves keeps what is untold of a handle whose name gets another child.
func (tx *Tx) leaves(h *Handle) error {
	return tx.atNotice(h, func(n *notice) { n.Handle = h })
}

// countedBy notes that an await has counted the end of a handle that had come
// before.
func (tx *Tx) countedBy(h *Handle, call string) error {
	return tx.atNotice(h, func(n *notice) { n.Awaits = append(n.Awaits, call) })
}

// shownOfOld notes what was told of a child whose name has another one by now.
// Only its end matters any more.
func (tx *Tx) shownOfOld(s *HandleShown) error {
	for i := tx.NoticesTold + 1; s.Told && i <= min(tx.Notices, tx.NoticesTold+maxNotices); i++ {
		n := new(notice)
		found, err := tx.read(noticeKey(tx.ID, i), n)
		if err != nil {
			return err
		}
		if found && n.Child == s.Child && n.Handle != nil {
			n.Handle.Told = true
			tx.putJSON(noticeKey(tx.ID, i), n)
		}
	}
	return nil
}

// maxGone is how many notices a commit deletes. Very many are told at once where
// an await has told of them before.
const maxGone = 20

// Untold returns those of handles, as the store has them, that the model is not
// told of yet: a result that rides may tell.
func (tx *Tx) Untold(stored []Handle) (untold []Handle, err error) {
	for i := range stored {
		h, found, err := tx.handle(stored[i].Name)
		if err != nil {
			return nil, err
		}
		if !found || h.Child != stored[i].Child || !h.Told {
			untold = append(untold, stored[i])
		}
	}
	return untold, nil
}

// Tell appends a message of notices, before the model is asked; nil: there is
// nothing to tell. It covers the notices up to a number, and notes what it shows
// of handles. What handles have produced is told without a notice of its own.
func (tx *Tx) Tell(m *Entry, to int, shown []HandleShown) error {
	if err := tx.due(); err != nil {
		return err
	}
	if to < tx.NoticesTold || to == tx.NoticesTold && m == nil {
		return fmt.Errorf("%w: notices up to %d were told", ErrStale, tx.NoticesTold)
	}
	if m != nil {
		tx.append(m)
	}
	tx.NoticesTold = min(to, tx.Notices)
	for range min(maxGone, tx.NoticesTold-tx.NoticesGone) {
		tx.NoticesGone++
		tx.delete(noticeKey(tx.ID, tx.NoticesGone))
	}
	for i := range shown {
		if err := tx.shown(&shown[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxNotices is how many notices a model is told at once.
const maxNotices = 32

// Untold returns the handles that the model is to be told of, in order, each
// once, and the number of the last notice that this covers. What a result has
// told meanwhile is left out. Done reports whether a settled call has a result
// of its own.
func (s *Store) Untold(
	ctx context.Context, st *State, done func(call string) (bool, error),
) (handles []Handle, to int, err error) {
	to = st.NoticesTold
	seen := map[string]bool{}
	for to < st.Notices && len(handles) < maxNotices {
		to++
		n, err := s.notice(ctx, st.ID, to)
		if err != nil {
			return nil, 0, err
		}
		if n == nil || seen[n.Child] {
			continue
		}
		told := false
		for _, call := range n.Awaits {
			is, err := done(call)
			if err != nil {
				return nil, 0, err
			}
			told = told || is
		}
		if told {
			continue
		}
		h, err := s.noticed(ctx, st.ID, to, n)
		if err != nil {
			return nil, 0, err
		}
		if h != nil {
			seen[n.Child] = true
		}
		if h != nil && !h.Told {
			handles = append(handles, *h)
		}
	}
	return handles, to, nil
}

// notice reads a notice; nil: it isn't there, or can't be read.
func (s *Store) notice(ctx context.Context, session string, number int) (*notice, error) {
	n := new(notice)
	switch found, err := s.read(ctx, noticeKey(session, number), n); {
	case errors.Is(err, ErrCorrupt): // Check reports it; no run is held up
		return nil, nil
	case err != nil || !found:
		return nil, err
	}
	return n, nil
}

// noticed reads the record of the child that a notice is of; nil: there is none
// any more.
func (s *Store) noticed(
	ctx context.Context, session string, number int, n *notice,
) (*Handle, error) {
	if n.Handle != nil {
		return n.Handle, nil
	}
	h, err := s.Handle(ctx, session, n.Name)
	switch {
	case errors.Is(err, ErrUnknownHandle):
		return nil, nil
	case err != nil:
		return nil, err
	case h.Child == n.Child:
		return h, nil
	}
	// The name was given anew, perhaps just now: then the notice has the record.
	n, err = s.notice(ctx, session, number)
	if err != nil || n == nil {
		return nil, err
	}
	return n.Handle, nil
}
