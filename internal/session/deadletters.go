package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// A dead letter is a notification that was tried often enough. It stands aside,
// so that those after it are sent, until an operator has it sent again, or
// dropped.

// deadLetter is its record.
type deadLetter struct {
	Version      int          `json:"v"`
	User         string       `json:"user,omitzero"`
	Root         string       `json:"root,omitzero"`
	Notification Notification `json:"of"`
	Tries        int          `json:"tries"`
	Failed       string       `json:"failed,omitzero"`
	At           time.Time    `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (d *deadLetter) newest() int { return Version }

func (d *deadLetter) check() error {
	if d.Version < 1 || d.Tries < 0 || d.At.IsZero() {
		return errIncomplete
	}
	return d.Notification.check()
}

func deadKey(session string, number int) []byte {
	return kvstore.Key("D", session, padded(number, 10))
}

// DeadLetter is one, with what identifies it.
type DeadLetter struct {
	Unsent
	Tries  int
	Failed string    // what the last try came to
	Died   time.Time // when
}

// DeadLetters lists those of a session, or of all, in the order of sessions and
// numbers. One that can't be read is an error in its place, beside its session
// and number.
func (s *Store) DeadLetters(ctx context.Context, session string) iter.Seq2[DeadLetter, error] {
	prefix := kvstore.Key("D")
	if session != "" {
		prefix = kvstore.Key("D", session)
	}
	return func(yield func(DeadLetter, error) bool) {
		for e, err := range s.scan(ctx, prefix) {
			var d DeadLetter
			if err == nil {
				d, err = readDead(e)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

func readDead(e kvstore.Entry) (d DeadLetter, err error) {
	parts, err := kvstore.Parts(e.Key)
	if err != nil || len(parts) != 3 {
		return d, fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
	}
	d.Session = parts[1]
	if d.Number, err = strconv.Atoi(parts[2]); err != nil {
		return d, fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
	}
	var stored deadLetter
	if err := decode(e.Key, e.Value, &stored); err != nil {
		return d, err
	}
	d.User, d.Root, d.Notification = stored.User, stored.Root, stored.Notification
	d.Tries, d.Failed, d.Died = stored.Tries, stored.Failed, stored.At
	return d, nil
}

// SendAgain puts a dead letter back among what is to be sent, before what has
// come since. Without any of that number, it is ErrNoDeadLetter.
func (s *Store) SendAgain(ctx context.Context, session string, number int) error {
	err := s.changeDead(ctx, session, number, func(e kvstore.Entry, b *kvstore.Batch) error {
		d, err := readDead(e)
		if err != nil {
			return err
		}
		n := notifications{Version: Version, User: d.User, Root: d.Root,
			Place: atOnce(s.Now()), List: []Notification{d.Notification}}
		value, err := encode(&n)
		b.Puts = []kvstore.Put{{Key: notificationsKey(session, number), Value: value},
			{Key: notifyKey(n.Place, session)}}
		return err
	})
	if err == nil {
		s.signal(notifyTopic)
	}
	return err
}

// DropDead forgets a dead letter. Without any of that number, it is
// ErrNoDeadLetter.
func (s *Store) DropDead(ctx context.Context, session string, number int) error {
	return s.changeDead(ctx, session, number,
		func(kvstore.Entry, *kvstore.Batch) error { return nil })
}

// changeDead takes a dead letter away, with what else goes into that commit.
func (s *Store) changeDead(
	ctx context.Context, session string, number int, f func(kvstore.Entry, *kvstore.Batch) error,
) error {
	key := deadKey(session, number)
	for lost := tries(0); ; {
		e, err := s.kv.Get(ctx, key)
		switch {
		case errors.Is(err, kvstore.ErrNotFound) && lost > 0:
			return nil // by the try before, whose acknowledgement got lost
		case errors.Is(err, kvstore.ErrNotFound):
			return fmt.Errorf("%w: number %d of session %q", ErrNoDeadLetter, number, session)
		case err != nil:
			return err
		}
		b := kvstore.Batch{Deletes: [][]byte{key},
			Preconditions: []kvstore.Precondition{{Key: key, Revision: e.Revision}}}
		if err := f(e, &b); err != nil {
			return err
		}
		if _, err = s.kv.Apply(ctx, b); !lost.again(ctx, err) {
			return err
		}
	}
}
