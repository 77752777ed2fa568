package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// The messages that wait in a queue, beside the head.

// queuedMessage is a user's message that waits.
type queuedMessage struct {
	Number    int       `json:"number"` // in its line
	ID        string    `json:"id"`
	Hash      string    `json:"hash"`
	Size      int       `json:"size"`
	Message   *Blob     `json:"message"`
	Supersede bool      `json:"supersede,omitzero"`
	At        time.Time `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// queueKey is where a message of a queue lies: those that are taken first come
// first.
func queueKey(session string, at QueuePlace) []byte {
	line := "1"
	if at.Steering {
		line = steeringLine
	}
	return kvstore.Key("Q", session, line, padded(at.Number, 8))
}

const steeringLine = "0"

func (m *queuedMessage) check() error {
	if m.Number < 0 || m.ID == "" || m.Hash == "" || m.Size < 1 || m.Message == nil {
		return errIncomplete
	}
	return m.Message.check()
}

func (m *queuedMessage) liesAt(key []byte) bool { return endsWith(key, padded(m.Number, 8)) }

func (m *queuedMessage) queued(at QueuePlace) *Queued {
	return &Queued{QueuePlace: at, ID: m.ID, Hash: m.Hash, Size: m.Size, Message: m.Message,
		Supersede: m.Supersede, At: m.At}
}

// placeMessage makes a message ready to stand in the record of one that waits:
// in place as far as a record has room, so that it is not read apart.
func (tx *Tx) placeMessage(e *Entry) *Blob {
	if len(e.blob.value) <= chunkSize {
		return &Blob{Inline: e.blob.value}
	}
	b := e.blob.outside(tx.update)
	if !b.written {
		tx.large = append(tx.large, large{tx.ID, b})
	}
	return b
}

// Queue lists the messages that wait in a session's queue, in the order in
// which they are taken.
func (s *Store) Queue(ctx context.Context, session string) iter.Seq2[*Queued, error] {
	return func(yield func(*Queued, error) bool) {
		for e, err := range s.scan(ctx, kvstore.Key("Q", session)) {
			var q *Queued
			if err == nil {
				q, err = decodeQueued(e)
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}

func decodeQueued(e kvstore.Entry) (*Queued, error) {
	var r queuedMessage
	if err := decode(e.Key, e.Value, &r); err != nil {
		return nil, err
	}
	parts, err := kvstore.Parts(e.Key)
	if err != nil || len(parts) != 4 {
		return nil, fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
	}
	return r.queued(QueuePlace{Steering: parts[2] == steeringLine, Number: r.Number}), nil
}

// QueuedMessage reads a message that waits. It is the caller's own.
func (s *Store) QueuedMessage(
	ctx context.Context, session string, q *Queued,
) (m llm.Message, err error) {
	raw, err := s.ownValue(ctx, session, q.Message)
	if err != nil {
		return m, err
	}
	err = m.UnmarshalJSON(raw)
	if err == nil && m.Role != llm.RoleUser {
		err = fmt.Errorf("its role is %q", m.Role)
	}
	if err != nil {
		return m, fmt.Errorf("%w: the message %q in the queue of session %q is no user's: %w",
			ErrCorrupt, q.ID, session, err)
	}
	return m, nil
}

// Sent is how a user's message stands that came with an id.
type Sent struct {
	// Place is how many messages are taken up to it, itself counted; 0: it waits
	// no more.
	Place   int
	Number  int    // in the history; -1: it isn't there
	Refused string // why it could not be taken when its place came
}

// Sent looks a user's message up; ErrUnknownMessage if there is none of that
// id. Number is -1 also for an answer.
func (s *Store) Sent(ctx context.Context, session, id string) (Sent, error) {
	for {
		var u userMessage
		found, err := s.read(ctx, userMessageKey(session, id), &u)
		if err == nil && !found {
			err = fmt.Errorf("%w: %q in session %q", ErrUnknownMessage, id, session)
		}
		if err != nil || !u.Queued {
			return Sent{Number: u.Number, Refused: u.Refused}, err
		}
		place := 0
		for q, err := range s.Queue(ctx, session) {
			if err != nil {
				return Sent{}, err
			}
			if place++; q.ID == id {
				return Sent{Place: place, Number: -1}, nil
			}
		}
		// It was taken between the two reads, or the store is damaged.
		var now userMessage
		if found, err := s.read(ctx, userMessageKey(session, id), &now); err != nil || !found ||
			now.Queued {
			return Sent{}, errors.Join(err, fmt.Errorf(
				"%w: the message %q is missing in the queue of session %q", ErrCorrupt, id, session))
		}
	}
}

// SendTo applies a transition to a session as Update does. With a session that
// doesn't exist, the transition begins it, as n describes. One of another user
// is ErrWrongUser. Before that, look is called with the session as it was found;
// nil: it doesn't exist.
func (s *Store) SendTo(
	ctx context.Context, id string, n *New, look func(*State) error, t Transition,
) error {
	h, err := s.head(ctx, id, n.fresh(s, id))
	if err == nil {
		var found *State
		if h.rev != 0 {
			found = h.lend()
		}
		err = look(found)
	}
	if err != nil {
		return err
	}
	return s.updateHead(ctx, h, id, func(tx *Tx) error {
		if err := n.begun(tx.State, h.rev == 0); err != nil {
			return err
		}
		return t(tx)
	})
}

// queue reports messages of a queue that are missing or damaged, and those that
// the head doesn't know.
func (c *check) queue(ctx context.Context, st *State) error {
	var q Queue
	if st.Queue != nil {
		q = *st.Queue
	}
	size, superseding := 0, 0
	next := map[bool]int{true: q.Steering.From, false: q.Queued.From}
	for e, err := range c.store.scan(ctx, kvstore.Key("Q", st.ID)) {
		if err != nil {
			return err
		}
		m, err := decodeQueued(e)
		if err == nil {
			_, err = c.store.QueuedMessage(ctx, st.ID, m)
		}
		if err != nil {
			if err := c.judge(st.ID, keyName(e.Key), err); err != nil {
				return err
			}
			continue
		}
		if size += m.Size; m.Supersede {
			superseding++
		}
		if m.Number != next[m.Steering] {
			const what = "it is message %d of its line, and %d is to come there"
			err := c.report(st.ID, keyName(e.Key), what, m.Number, next[m.Steering])
			if err != nil {
				return err
			}
		}
		next[m.Steering] = m.Number + 1
	}
	if next[true] != q.Steering.To || next[false] != q.Queued.To || size != q.Size ||
		superseding != q.Superseding {
		return c.report(st.ID, "queue", "the head counts messages up to %d and %d, of %d bytes, "+
			"and there are those up to %d and %d, of %d", q.Steering.To, q.Queued.To, q.Size,
			next[true], next[false], size)
	}
	return nil
}
