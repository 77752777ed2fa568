package session

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// A user's message that comes while its session is busy, or waits, is stored in
// the session's queue, and taken when its place comes. The head has counters
// alone. Each message has a record of its own, see queuestore.go.
//
// There are two lines. A steering message goes into the run that goes on:
// before the model's next answer, once no call is open. Any other begins a run
// of its own, once the one before it is over. While calls wait, the first of
// all is judged as a message of Run is: it may be the answer.
//
// Only a driver takes a message off. So it is taken in the commit of what
// becomes of it, and once.

// Queue is what the head keeps of the messages that wait. Nil: there are none.
type Queue struct {
	Steering    Line `json:"steering,omitzero"`
	Queued      Line `json:"queued,omitzero"`
	Size        int  `json:"size"`                 // of all of them, in bytes
	Superseding int  `json:"superseding,omitzero"` // how many of them supersede
	// Judged names what the turn waited for, and for which message, when a
	// driver has found last that the message's place has not come.
	Judged uint64 `json:"judged,omitzero"`
	// Below counts how often a session below has come to wait meanwhile.
	Below int `json:"below,omitzero"`
	// After: a message came after the end of the run was asked for. It goes on
	// with that once the open turn is closed.
	After bool `json:"after,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Line is one line of a queue: the number of its first message, and that after
// its last.
type Line struct {
	From int `json:"from,omitzero"`
	To   int `json:"to,omitzero"`
}

func (l Line) len() int { return l.To - l.From }

// Len returns how many messages wait. Q may be nil.
func (q *Queue) Len() int {
	if q == nil {
		return 0
	}
	return q.Steering.len() + q.Queued.len()
}

// Steers reports whether a message waits for the model's next answer. Q may be
// nil.
func (q *Queue) Steers() bool { return q != nil && q.Steering.len() > 0 }

// first returns where the message stands that is taken next.
func (q *Queue) first() QueuePlace {
	if q.Steers() {
		return QueuePlace{Steering: true, Number: q.Steering.From}
	}
	return QueuePlace{Number: q.Queued.From}
}

func (q *Queue) check() error {
	if q == nil {
		return nil
	}
	for _, l := range []Line{q.Steering, q.Queued} {
		if l.From < 0 || l.len() < 0 {
			return fmt.Errorf("a line of its queue goes from %d to %d", l.From, l.To)
		}
	}
	if n := q.Len(); n == 0 || q.Size < 1 || q.Superseding < 0 || q.Superseding > n ||
		q.Below < 0 {
		return errors.New("what its queue has counted doesn't go together")
	}
	return nil
}

// QueuePlace is where a message stands in its queue.
type QueuePlace struct {
	Steering bool
	Number   int // in its line
}

// judging names what the turn waits for, and the message that is judged by it.
func (s *State) judging() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.Queue.first(), s.Queue.Superseding > 0)
	if s.Queue.Below > 0 {
		fmt.Fprint(h, " ", s.Queue.Below)
	}
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == Pending || c.Parked != nil {
			fmt.Fprint(h, " ", c.ID, ".", c.Pauses, c.Parked != nil)
		}
	}
	return h.Sum64()
}

// speaks reports whether the first message that waits is to be looked at while
// the turn waits, since it or the turn has changed.
func (s *State) speaks() bool { return s.Queue != nil && s.Queue.Judged != s.judging() }

// Between reports whether the last run is over, and the next has not begun.
func (s *State) Between() bool { return len(s.Calls) == 0 && !s.Due && s.Linger == nil }

// ownQueue returns the queue for a transition to change. Readers of the head see
// the one before.
func (tx *Tx) ownQueue() *Queue {
	own := new(Queue)
	if tx.Queue != nil {
		*own = *tx.Queue
	}
	tx.Queue = own
	tx.touch()
	return own
}
