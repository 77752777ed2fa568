package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// How what a session tells the outside is sent: found by its index, read in
// order, and taken away once it was sent.

// DueNotice is an entry of the index.
type DueNotice struct {
	Session string
	Pause   string // that is to be reminded of; empty: there is something to send
	Key     []byte // in the index
	rev     kvstore.Revision
}

// DueNotices lists a page of what is due in one part of the index, from 0 to
// NoticeShards, the longest due first, and whether there is more. After the last
// page, next is when the next will be due.
func (s *Store) DueNotices(
	ctx context.Context, shard int, after []byte,
) (due []DueNotice, more bool, next time.Time, err error) {
	name, now := shardName(shard), s.Now()
	page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key("O", name), After: after,
		Limit: 256})
	if err != nil {
		return nil, false, next, err
	}
	for _, e := range page.Entries {
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 4 && len(parts) != 5 {
			continue // Check reports it
		}
		if at := parseMillis(parts[2]); at.After(now) {
			return due, false, at, nil
		}
		d := DueNotice{Session: parts[3], Key: e.Key, rev: e.Revision}
		if len(parts) == 5 {
			d.Pause = parts[4]
		}
		due = append(due, d)
	}
	return due, page.More, next, nil
}

// WatchNotices returns a channel that gets a value when there is something to
// send, as far as this process knows.
func (s *Store) WatchNotices() (c <-chan struct{}, stop func()) { return s.listenFor(notifyTopic) }

// RemindOf tells that the deadline of a pause comes near, whose time to be
// reminded of has come. If the pause is over, only the entry goes.
func (s *Store) RemindOf(ctx context.Context, d DueNotice) error {
	err := s.Update(ctx, d.Session, func(tx *Tx) error { return tx.Remind(d.Pause) })
	if isOver(err) || errors.Is(err, ErrStale) || errors.Is(err, ErrDeleted) {
		return s.repeat(ctx, kvstore.Batch{Deletes: [][]byte{d.Key}})
	}
	return err
}

// PutOff moves an entry to a later time, about which something can't be read.
func (s *Store) PutOff(ctx context.Context, d DueNotice, until time.Time) error {
	to := notifyKey(until, d.Session)
	if d.Pause != "" {
		to = reminderKey(until, d.Session, d.Pause)
	}
	return s.repeat(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: to}}, Deletes: [][]byte{d.Key}})
}

// Unsent is a notification with what identifies it.
type Unsent struct {
	Notification
	Session, User, Root string
	Number              int
}

// batchOf is the record that is being sent, and how much of it was.
type batchOf struct {
	key   []byte
	rev   kvstore.Revision
	first int // the number of its first
	notifications
}

// Next returns the notification that is to be sent now. Without any left, the
// right was given up, and more is false.
func (w *Sending) Next(ctx context.Context) (n Unsent, more bool, err error) {
	for {
		if len(w.now.List) == 0 {
			if found, err := w.read(ctx); err != nil || !found {
				return n, false, err
			}
		}
		switch r := &w.now; {
		case len(r.List) == 0: // it was damaged
		case r.first != w.sent:
			return Unsent{Notification: r.List[0], Session: w.id, User: r.User, Root: r.Root,
				Number: r.first}, true, nil
		default: // only the commit is missing
			if err := w.Sent(ctx); err != nil {
				return n, false, err
			}
		}
	}
}

// read reads the first record that there is. Without any, it ends the sending.
func (w *Sending) read(ctx context.Context) (found bool, err error) {
	for {
		page, err := w.store.kv.Scan(ctx,
			kvstore.Range{Prefix: kvstore.Key("N", w.id), Limit: 1})
		if err != nil {
			return false, err
		}
		if len(page.Entries) == 1 {
			return true, w.take(ctx, page.Entries[0])
		}
		if err = w.end(ctx); err == nil || !w.goesOn(err) {
			return false, err
		}
	}
}

// take makes a record the one that is being sent. One that can't be read becomes
// a dead letter as it is.
func (w *Sending) take(ctx context.Context, e kvstore.Entry) error {
	parts, err := kvstore.Parts(e.Key)
	var first int
	if err == nil && len(parts) == 3 {
		first, err = strconv.Atoi(parts[2])
	}
	if err != nil || first < 1 {
		return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
	}
	w.now = batchOf{key: e.Key, rev: e.Revision, first: first}
	err = decode(e.Key, e.Value, &w.now.notifications)
	if errors.Is(err, ErrCorrupt) {
		w.now.List = nil
		err = w.commit(ctx, kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: e.Key, Revision: e.Revision}},
			Puts:          []kvstore.Put{{Key: deadKey(w.id, first), Value: e.Value}},
			Deletes:       [][]byte{e.Key},
		})
		if w.goesOn(err) {
			err = nil
		}
	}
	return err
}

// goesOn reports whether after an error of a commit the lease is still this
// one's: then what is stored is read again.
func (w *Sending) goesOn(err error) bool {
	again := errors.Is(err, kvstore.ErrUncertain) || errors.Is(err, kvstore.ErrConflict)
	if again {
		w.now = batchOf{}
	}
	w.unsure++
	return again && !errors.Is(err, ErrFenced) && w.unsure < 4*uncertainTries
}

// Sent takes the notification away that Next returned. What failed before is
// forgotten.
func (w *Sending) Sent(ctx context.Context) error {
	w.sent = w.now.first
	w.record.Number, w.record.Tries, w.record.Failed, w.record.At = 0, 0, "", time.Time{}
	return w.passed(ctx, kvstore.Batch{})
}

// passed commits a batch with which the first notification of the record goes.
func (w *Sending) passed(ctx context.Context, b kvstore.Batch) error {
	r := &w.now
	b.Preconditions = append(b.Preconditions, kvstore.Precondition{Key: r.key, Revision: r.rev})
	b.Deletes = append(b.Deletes, r.key)
	if rest := r.notifications; len(rest.List) > 1 {
		rest.List = rest.List[1:]
		value, err := encode(&rest)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts,
			kvstore.Put{Key: notificationsKey(w.id, r.first+1), Value: value})
	}
	err := w.commit(ctx, b)
	if err == nil || w.goesOn(err) {
		w.now = batchOf{} // the rest is read again
		return nil
	}
	return err
}

// Failed notes that the notification that Next returned could not be sent, and
// gives the right up until it is tried again. Wait returns how long that is
// after so many tries; without more, the notification becomes a dead letter,
// and the next one is sent.
func (w *Sending) Failed(
	ctx context.Context, why string, wait func(tries int) (d time.Duration, more bool),
) (dead bool, err error) {
	r, now := &w.record, w.store.Now()
	if r.Number != w.now.first {
		r.Number, r.Tries = w.now.first, 0
	}
	r.Tries++
	r.Failed = brief(why)
	d, more := wait(r.Tries)
	if !more {
		letter := deadLetter{Version: Version, User: w.now.User, Root: w.now.Root,
			Notification: w.now.List[0], Tries: r.Tries, Failed: r.Failed, At: now}
		value, err := encode(&letter)
		if err != nil {
			return true, err
		}
		put := kvstore.Put{Key: deadKey(w.id, r.Number), Value: value}
		r.Number, r.Tries, r.Failed, r.At = 0, 0, "", time.Time{}
		return true, w.passed(ctx, kvstore.Batch{Puts: []kvstore.Put{put}})
	}
	r.At = now.Add(max(d, time.Millisecond)).Truncate(time.Millisecond)
	return false, w.givesUp(ctx, kvstore.Batch{})
}

// givesUp gives the right up, with the entry where the next try stands.
func (w *Sending) givesUp(ctx context.Context, b kvstore.Batch) error {
	to := notifyKey(w.record.At, w.id)
	b.Puts = append(b.Puts, kvstore.Put{Key: to})
	if w.due.Key != nil && string(to) != string(w.due.Key) {
		b.Deletes = append(b.Deletes, w.due.Key)
	}
	return w.apply(ctx, b, w.free(), instant{})
}

// free returns the record without a holder.
func (w *Sending) free() sending {
	r := w.record
	r.Holder, r.End, r.For = "", time.Time{}, 0
	return r
}

// end gives the right up, since there is nothing left to send: the entry goes,
// unless a commit has put it there anew.
func (w *Sending) end(ctx context.Context) error {
	var b kvstore.Batch
	w.record.Number, w.record.Tries, w.record.Failed, w.record.At = 0, 0, "", time.Time{}
	if w.due.Key != nil {
		b.Preconditions = []kvstore.Precondition{{Key: w.due.Key, Revision: w.due.rev}}
		b.Deletes = [][]byte{w.due.Key}
	}
	err := w.apply(ctx, b, w.free(), instant{})
	if !errors.Is(err, kvstore.ErrConflict) || errors.Is(err, ErrFenced) {
		return err
	}
	e, again := w.store.kv.Get(ctx, w.due.Key)
	switch {
	case errors.Is(again, kvstore.ErrNotFound):
		w.due.Key = nil
	case again != nil:
		return again
	default:
		w.due.rev = e.Revision
	}
	return err
}

// Tells reports whether the sessions of this Store tell the outside anything.
func (s *Store) Tells() bool { return s.notify != nil }

// IsDeleted reports whether a session is deleted, or gone.
func (s *Store) IsDeleted(ctx context.Context, id string) (bool, error) {
	st, err := s.Load(ctx, id)
	if errors.Is(err, ErrUnknownSession) {
		return true, nil
	}
	return err == nil && !st.Deleted.IsZero(), err
}
