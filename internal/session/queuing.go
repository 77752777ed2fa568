package session

import (
	"errors"
	"fmt"
	"time"
)

// How a user's message comes into the queue of its session, and leaves it.

// NewMessage is a user's message on its way to a session, from a caller that
// doesn't drive.
type NewMessage struct {
	ID, Hash string
	Entry    *Entry
	Steer    bool // it goes into the run that goes on
	// Supersede: calls that wait for people are denied for it, or for those
	// before it.
	Supersede bool
	// Refuse: it isn't stored unless it can be said at once.
	Refuse bool
	// Answers: it is to be an answer, and so isn't said at once.
	Answers bool
	Most    int // how many messages may wait with it
}

// maxQueueSize bounds the messages that wait in one queue together, in bytes.
const maxQueueSize = 16 << 20

// ErrNotNow refuses a message that can't be said at once.
var ErrNotNow = errors.New("session: the message can't be said at once")

// Send takes a user's message: it is said at once if that needs no driver, and
// otherwise queued. Place is where it stands among those that wait, from 1; 0:
// it is said. A halt is lifted by it. A message that came before is left as it
// is, with before; of another content it is ErrMessageConflict.
func (tx *Tx) Send(m *NewMessage) (place int, before bool, err error) {
	if !tx.Deleted.IsZero() {
		return 0, false, fmt.Errorf("%w: %q", ErrDeleted, tx.ID)
	}
	if before, _, err = tx.Said(m.ID, m.Hash); before || err != nil {
		return 0, before, err
	}
	busy := tx.driven || tx.Queue != nil || m.Answers || len(tx.Calls) > 0 || tx.Due && tx.Halt == nil
	if busy && m.Refuse {
		return 0, false, ErrNotNow
	}
	if tx.Halt != nil {
		tx.liftFor()
	}
	if !busy {
		return 0, false, tx.Say(m.Entry, m.ID, m.Hash, true)
	}
	if err := tx.enqueue(m); err != nil {
		return 0, false, err
	}
	if m.Steer {
		return tx.Queue.Steering.len(), false, nil
	}
	return tx.Queue.Len(), false, nil
}

// liftFor lifts a halt for a message. What the run had still to say is left, as
// by a message of Run.
func (tx *Tx) liftFor() {
	tx.Lift(tx.Halt)
	if len(tx.Calls) == 0 {
		tx.Due, tx.Linger = false, nil
	}
}

// LiftFor is Lift for the first message that waits: what the run had still to
// say is left.
func (tx *Tx) LiftFor(h *Halt) {
	if tx.Halt.same(h) {
		tx.liftFor()
	}
}

// enqueue stores a message in the queue.
func (tx *Tx) enqueue(m *NewMessage) error {
	size := len(m.Entry.blob.value)
	switch q := tx.Queue; {
	case q.Len() >= m.Most:
		return fmt.Errorf("%w: %d wait in session %q", ErrQueueFull, q.Len(), tx.ID)
	case q != nil && q.Size+size > maxQueueSize:
		return fmt.Errorf("%w: those of session %q have %d bytes, and with this one more than %d",
			ErrQueueFull, tx.ID, q.Size, maxQueueSize)
	}
	own := tx.ownQueue()
	line := &own.Queued
	if m.Steer {
		line = &own.Steering
	}
	at := QueuePlace{Steering: m.Steer, Number: line.To}
	line.To++
	own.Size += size
	if m.Supersede {
		own.Superseding++
	}
	own.After = own.After || tx.Ending != nil
	if tx.Children > 0 { // a process may have died before it told of what waits below
		own.Below++
	}
	// Its run, and those before it, are carried on without their callers.
	tx.Run.Detached = true
	tx.putJSON(queueKey(tx.ID, at), &queuedMessage{
		Number: at.Number, ID: m.ID, Hash: m.Hash, Size: size, Message: tx.placeMessage(m.Entry),
		Supersede: m.Supersede, At: tx.Now,
	})
	tx.putJSON(userMessageKey(tx.ID, m.ID), userMessage{Hash: m.Hash, Number: -1, Queued: true})
	tx.outdates()
	return nil
}

// Queued is the first message of a queue, as a driver takes it.
type Queued struct {
	QueuePlace
	ID, Hash  string
	Size      int
	Message   *Blob
	Supersede bool // it supersedes by itself
	At        time.Time
}

// First returns the message that is taken next; nil: none waits.
func (tx *Tx) First() (*Queued, error) {
	if tx.Queue == nil {
		return nil, nil
	}
	at := tx.Queue.first()
	var r queuedMessage
	found, err := tx.read(queueKey(tx.ID, at), &r)
	if err == nil && !found {
		err = fmt.Errorf("%w: message %d of the queue of session %q is missing",
			ErrCorrupt, at.Number, tx.ID)
	}
	if err != nil {
		return nil, err
	}
	return r.queued(at), nil
}

// Take takes the first message off the queue, in the commit of what becomes of
// it. It is ErrStale if another one is the first, or the run is ended.
func (tx *Tx) Take(m *Queued) error {
	if tx.Queue == nil || tx.Queue.first() != m.QueuePlace || tx.Halt != nil || tx.Ending != nil {
		return fmt.Errorf("%w: the message %q is not the first of its queue, or the run is ended",
			ErrStale, m.ID)
	}
	tx.delete(queueKey(tx.ID, m.QueuePlace))
	own := tx.ownQueue()
	line := &own.Queued
	if m.Steering {
		line = &own.Steering
	}
	line.From++
	own.Size -= m.Size
	if m.Supersede {
		own.Superseding--
	}
	if own.Len() == 0 {
		tx.Queue = nil
	}
	return nil
}

// SayQueued says the first message of the queue: a steering one into the run
// that goes on, any other as the beginning of a run.
func (tx *Tx) SayQueued(m *Queued) error {
	if len(tx.Calls) > 0 {
		return fmt.Errorf("%w: a turn is open", ErrStale)
	}
	if err := tx.Take(m); err != nil {
		return err
	}
	entry := &Entry{blob: *m.Message}
	if !m.Steering || tx.Between() {
		return tx.Say(entry, m.ID, m.Hash, true)
	}
	tx.append(entry)
	tx.putJSON(userMessageKey(tx.ID, m.ID), userMessage{Hash: m.Hash, Number: tx.Messages - 1})
	tx.Due, tx.Linger = true, nil
	tx.gotOn()
	return nil
}

// Refuse takes the first message off the queue, and notes why it can't be
// taken.
func (tx *Tx) Refuse(m *Queued, why string) error {
	if err := tx.Take(m); err != nil {
		return err
	}
	tx.putJSON(userMessageKey(tx.ID, m.ID),
		userMessage{Hash: m.Hash, Number: -1, Refused: brief(why)})
	return nil
}

// Judge notes that the place of the first message has not come, by what the
// turn waits for in a head that was judged.
func (tx *Tx) Judge(by *State) error {
	if tx.Queue == nil || by.Queue == nil {
		return nil
	}
	if now := by.judging(); tx.Queue.Judged != now {
		tx.ownQueue().Judged = now
	}
	return nil
}

// WaitsBelow notes that a session below has come to wait. So the first message
// that waits is judged once more, also if a driver does so just now.
func (tx *Tx) WaitsBelow() {
	if tx.Queue != nil && tx.Deleted.IsZero() {
		tx.ownQueue().Below++
	}
}

// Bind notes which pause below the session the first message is on its way to,
// as its answer; the zero value: none any more.
func (tx *Tx) Bind(m *Queued, to PauseRef) error {
	if tx.Queue == nil || tx.Queue.first() != m.QueuePlace {
		return fmt.Errorf("%w: the message %q is not the first of its queue", ErrStale, m.ID)
	}
	tx.putJSON(userMessageKey(tx.ID, m.ID), userMessage{Hash: m.Hash, Number: -1, Queued: true,
		Session: to.Session, Pause: to.Pause})
	return nil
}

// OnItsWay returns what Bind has noted.
func (tx *Tx) OnItsWay(m *Queued) (to PauseRef, err error) {
	var u userMessage
	_, err = tx.read(userMessageKey(tx.ID, m.ID), &u)
	return PauseRef{u.Session, u.Pause}, err
}

// goOnAfter goes on with the messages that came after the end of a run was
// asked for, once that has ended.
func (tx *Tx) goOnAfter() {
	if tx.Queue == nil || !tx.Queue.After {
		return
	}
	tx.ownQueue().After = false
	tx.liftFor()
}
