package session

import (
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// What the model is told of handles by itself. A notice is stored when something
// has happened, and stands for how the handle is when the model is told. New
// content has none: what there is of it is looked at when the model is asked,
// and so it costs no commit.

// notify has the model told of a handle before its next answer. With wakes, a
// run doesn't end before that.
func (tx *Tx) notify(h *Handle, wakes bool) {
	tx.Notices++
	tx.put(noticeKey(tx.ID, tx.Notices), []byte(h.Name))
	if wakes {
		tx.Wakes = tx.Notices
	}
}

// maxGone is how many notices a commit deletes. Very many are told at once where
// an await has told of them before.
const maxGone = 20

func noticeKey(session string, number int) []byte {
	return kvstore.Key("y", session, padded(number, 8))
}

// Untold returns those of handles, as the store has them, that the model is not
// told of yet: a result that rides may tell.
func (tx *Tx) Untold(stored []Handle) (untold []Handle, err error) {
	for i := range stored {
		h, found, err := tx.handle(stored[i].Name)
		if err != nil {
			return nil, err
		}
		if found && !(h.Told && h.Child == stored[i].Child) {
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
