package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// One process at a time sends what a session tells the outside. It holds a lease
// of its own for that, beside the one of the drive. Where the engine belongs to
// one process, the lease lives in memory. Elsewhere it is a record, ends by
// time, and is renewed by each commit of its holder; who waits for its end does
// so by its own monotonic clock, as with drives.
//
// The record also has what failed, and until when that is waited out. It goes
// with the last notification.

// sending is that record.
type sending struct {
	Version int    `json:"v"`
	Holder  string `json:"holder,omitzero"` // empty: none
	Beat    int    `json:"beat,omitzero"`   // greater with each commit of the holder
	// The lease is over at End, by the holder's clock, or after For milliseconds.
	End time.Time `json:"end,omitzero"`
	For int       `json:"for,omitzero"`

	Number int       `json:"number,omitzero"` // of the notification that failed
	Tries  int       `json:"tries,omitzero"`  // of it
	Failed string    `json:"failed,omitzero"` // what the last one came to
	At     time.Time `json:"at,omitzero"`     // when it is tried again

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (r *sending) newest() int { return Version }

func (r *sending) check() error {
	if r.Version < 1 || r.Beat < 0 || r.For < 0 || r.Tries < 0 || r.Number < 0 ||
		(r.Holder == "") != r.End.IsZero() || (r.Tries == 0) != r.At.IsZero() {
		return errIncomplete
	}
	return nil
}

func sendingKey(session string) []byte { return kvstore.Key("L", session) }

func sendingName(session string) string { return "sending " + session }

// A Sending is the right to send what a session tells. One goroutine has it.
type Sending struct {
	store  *Store
	id     string
	holder string
	length time.Duration
	due    DueNotice // by which it was found; its Key may be nil
	rev    kvstore.Revision
	record sending
	at     instant // when the commit was sent that last took or renewed the lease
	sent   int     // the number of the last that was sent, though its commit failed
	now    batchOf
	unsure int // commits of which it had to be read what became of them
}

// BeginSending takes the right to send what a session tells, for as long as
// length at least without a sign of life. If another has it, or a failure is
// waited out, there is none, and no error.
func (s *Store) BeginSending(
	ctx context.Context, due DueNotice, length time.Duration,
) (*Sending, error) {
	holder := newCommitID()
	w := &Sending{store: s, id: due.Session, holder: string(holder[:]), due: due,
		length: s.lease + length}
	if s.exclusive && !s.local.Acquire(sendingName(w.id), w.holder) {
		return nil, nil
	}
	begun, err := w.begin(ctx)
	if !begun || err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}

// begin reads the record, and takes the lease where it is stored.
func (w *Sending) begin(ctx context.Context) (begun bool, err error) {
	if err := w.load(ctx); err != nil {
		return false, err
	}
	now := w.store.Now()
	switch {
	case w.isHeld(now):
		return false, nil
	case w.record.At.After(now):
		return false, w.wait(ctx)
	case w.store.exclusive:
		return true, nil
	}
	err = w.commit(ctx, kvstore.Batch{})
	switch {
	case errors.Is(err, ErrFenced): // another was faster
		return false, nil
	case errors.Is(err, kvstore.ErrUncertain): // it is this one's all the same
		return true, nil
	}
	return err == nil, err
}

// load reads the record. One that is damaged counts as none: it holds nothing
// that must not be lost.
func (w *Sending) load(ctx context.Context) error {
	e, err := w.store.kv.Get(ctx, sendingKey(w.id))
	w.record, w.rev = sending{Version: Version}, 0
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	w.rev = e.Revision
	if err = decode(e.Key, e.Value, &w.record); errors.Is(err, ErrCorrupt) {
		w.record, err = sending{Version: Version}, nil
	}
	return err
}

// isHeld reports whether another holds the lease.
func (w *Sending) isHeld(now time.Time) bool {
	r := &w.record
	if w.store.exclusive || r.Holder == "" {
		return false
	}
	wait := time.Duration(r.For) * time.Millisecond
	this := mark{count: r.Beat, end: r.End.UnixMilli()}
	return w.store.soonest(subject{w.id, sawSender}, this,
		w.store.leaseEnd(r.End, wait+wait/drift), wait+wait/drift).After(now)
}

// wait moves the entry to where the failure is waited out.
func (w *Sending) wait(ctx context.Context) error {
	to := notifyKey(w.record.At, w.id)
	if w.due.Key == nil || string(to) == string(w.due.Key) {
		return nil
	}
	return w.store.repeat(ctx, kvstore.Batch{
		Puts: []kvstore.Put{{Key: to}}, Deletes: [][]byte{w.due.Key},
	})
}

// Renew makes sure that the lease lasts for as long as one notification may
// take to be sent.
func (w *Sending) Renew(ctx context.Context) error {
	if w.store.exclusive || w.store.since(w.at) < w.store.lease/3 {
		return nil
	}
	return w.commit(ctx, kvstore.Batch{})
}

// commit applies a batch, if the lease still is this one's, and renews it. With
// a nil error it was applied. After ErrUncertain it may have been: what it did
// has to be read again.
func (w *Sending) commit(ctx context.Context, b kvstore.Batch) error {
	next, at := w.record, w.store.instant()
	if !w.store.exclusive {
		next.Holder, next.Beat = w.holder, next.Beat+1
		next.End = w.store.Now().Add(w.length)
		next.For = int(w.length.Milliseconds())
	}
	return w.apply(ctx, b, next, at)
}

// apply writes the record with a batch.
func (w *Sending) apply(
	ctx context.Context, b kvstore.Batch, next sending, at instant,
) error {
	key := sendingKey(w.id)
	b.Preconditions = append(b.Preconditions, kvstore.Precondition{Key: key, Revision: w.rev})
	stays := next.Holder != "" || next.Tries > 0
	switch {
	case stays:
		value, err := encode(&next)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, kvstore.Put{Key: key, Value: value})
	case w.rev != 0:
		b.Deletes = append(b.Deletes, key)
	}
	if len(b.Puts)+len(b.Deletes) == 0 {
		return nil
	}
	rev, err := w.store.kv.Apply(ctx, b)
	switch {
	case err == nil:
		w.record, w.at = next, at
		if w.rev = 0; stays {
			w.rev = rev
		}
	case errors.Is(err, kvstore.ErrConflict), errors.Is(err, kvstore.ErrUncertain):
		if mine, again := w.mine(ctx); again != nil || !mine {
			return errors.Join(fmt.Errorf("%w: sending of session %q", ErrFenced, w.id), again)
		}
	}
	return err
}

// mine reads the record, and reports whether the lease is still this one's.
func (w *Sending) mine(ctx context.Context) (bool, error) {
	err := w.load(ctx)
	if w.store.exclusive {
		return w.store.local.Holder(sendingName(w.id)) == w.holder, err
	}
	return w.record.Holder == w.holder, err
}

// Release gives the right up, if it wasn't yet. If the engine doesn't take that,
// a lease that is stored ends by time.
func (w *Sending) Release() {
	if w.store.exclusive {
		w.store.local.Release(sendingName(w.id), w.holder)
		return
	}
	if w.record.Holder == w.holder {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		_ = w.apply(ctx, kvstore.Batch{}, w.free(), instant{})
	}
}

// releaseTime is how long a sender tries to give its lease up.
const releaseTime = time.Second
