package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// Entry is a message on its way into the history: encoded once, however often
// its transition runs.
type Entry struct {
	blob    Blob
	notices bool // it holds some
}

// NewEntry encodes a message.
func NewEntry(m llm.Message) (*Entry, error) {
	b, err := m.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("session: a message does not encode: %w", err)
	}
	return &Entry{Blob{value: b}, len(m.Notices()) > 0}, nil
}

// Size returns how many bytes the message has, encoded; 0 where that isn't at
// hand. E may be nil.
func (e *Entry) Size() int {
	if e == nil {
		return 0
	}
	return len(e.blob.value)
}

// Hash returns a name for the message's content.
func (e *Entry) Hash() string {
	h := sha256.Sum256(e.blob.value)
	return base64.RawURLEncoding.EncodeToString(h[:18])
}

// append adds a message to the history. One that is too large for a record lies
// elsewhere, like any payload.
func (tx *Tx) append(e *Entry) {
	tx.appendTo(tx.State, tx.Messages, e)
	tx.Messages++
	// Older programs don't tell the model, and know a message of notices alone
	// for an empty one.
	if e.notices {
		tx.outdates()
	}
}

// appendTo writes the message of that number of a session: this one, or a child
// in the making.
func (tx *Tx) appendTo(st *State, number int, e *Entry) {
	begins := len(tx.records)
	tx.records = appendMessageKey(tx.records, st.ID, st.Generation, number)
	key := tx.since(begins)
	switch {
	case e.blob.value == nil && e.blob.Ref != "": // it was queued, and stays where it lies
		tx.putJSON(key, &e.blob)
		return
	case len(e.blob.JSON()) <= chunkSize:
		tx.put(key, e.blob.JSON())
		return
	}
	b := e.blob.outside(tx.update)
	if !b.written {
		tx.large = append(tx.large, large{st.ID, b})
	}
	tx.putJSON(key, b)
}

// History reads the messages of a session from number from on.
func (s *Store) History(ctx context.Context, st *State, from int) ([]llm.Message, error) {
	messages, _, err := s.SizedHistory(ctx, st, from)
	return messages, err
}

// SizedHistory is History. It also returns how many bytes the messages have.
func (s *Store) SizedHistory(
	ctx context.Context, st *State, from int,
) (messages []llm.Message, bytes int, err error) {
	messages, bytes, err = s.history(ctx, st, from)
	return messages, bytes, s.orDeleted(ctx, st.ID, err)
}

// orDeleted corrects an error of reading what lies beside a head. What is
// missing because the session was deleted meanwhile is not damage.
func (s *Store) orDeleted(ctx context.Context, id string, err error) error {
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	if st, now := s.Load(ctx, id); now == nil && !st.Deleted.IsZero() {
		return fmt.Errorf("%w: %q", ErrDeleted, id)
	}
	return err
}

// history reads the messages page by page, and checks that none is missing.
func (s *Store) history(
	ctx context.Context, st *State, from int,
) (messages []llm.Message, bytes int, err error) {
	// A damaged count must not ask for all memory.
	messages = make([]llm.Message, 0, min(max(0, st.Messages-from), 4096))
	r := kvstore.Range{Prefix: messagesPrefix(st.ID, st.Generation)}
	if from > 0 {
		r.After = messageKey(st.ID, st.Generation, from-1)
	}
	for len(messages) < st.Messages-from {
		page, err := s.kv.Scan(ctx, r)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page.Entries {
			if len(messages) == st.Messages-from {
				break // written since the head was read
			}
			number := from + len(messages)
			if want := messageKey(st.ID, st.Generation, number); string(e.Key) != string(want) {
				return nil, 0, fmt.Errorf("%w: message %d of session %q is missing",
					ErrCorrupt, number, st.ID)
			}
			m, size, err := s.message(ctx, st.ID, e)
			if err != nil {
				return nil, 0, err
			}
			messages, bytes = append(messages, m), bytes+size
		}
		if !page.More && len(messages) < st.Messages-from {
			return nil, 0, fmt.Errorf("%w: session %q has %d messages, %d are stored",
				ErrCorrupt, st.ID, st.Messages, from+len(messages))
		}
		if len(page.Entries) > 0 {
			r.After = page.Entries[len(page.Entries)-1].Key
		}
	}
	return messages, bytes, nil
}

// message decodes one stored message, and returns how many bytes it has.
func (s *Store) message(
	ctx context.Context, session string, e kvstore.Entry,
) (m llm.Message, size int, err error) {
	value := e.Value
	ref, err := messageRef(e)
	if err == nil && ref != nil {
		value, err = s.payload(ctx, session, ref)
	}
	if err != nil {
		return m, 0, err
	}
	// Called directly: encoding/json would go over the bytes twice before.
	if err := m.UnmarshalJSON(value); err != nil {
		return m, 0, fmt.Errorf("%w: %s: %w", ErrCorrupt, keyName(e.Key), err)
	}
	if m.Role != llm.RoleUser && m.Role != llm.RoleAssistant && m.Role != llm.RoleTool {
		return m, 0, fmt.Errorf("%w: %s has role %q", ErrCorrupt, keyName(e.Key), m.Role)
	}
	return m, len(value), nil
}

// messageRef returns where a stored message lies that is too large for its own
// record, and nil for the others.
func messageRef(e kvstore.Entry) (*Blob, error) {
	if !bytes.HasPrefix(e.Value, []byte(`{"ref":`)) {
		return nil, nil
	}
	ref := new(Blob)
	if err := decode(e.Key, e.Value, ref); err != nil {
		return nil, err
	}
	if err := ref.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, keyName(e.Key), err)
	}
	return ref, nil
}

// Value reads a payload. It is shared: the caller must not change it.
func (s *Store) Value(ctx context.Context, session string, b *Blob) (json.RawMessage, error) {
	switch {
	case b == nil:
		return nil, nil
	case b.value != nil:
		return b.value, nil
	case b.Ref == "":
		return b.Inline, nil
	}
	value, err := s.payload(ctx, session, b)
	if err == nil && strictjson.Check(value) != nil {
		err = fmt.Errorf("%w: payload %q of session %q is not JSON", ErrCorrupt, b.Ref, session)
	}
	if err != nil {
		return nil, s.orDeleted(ctx, session, err)
	}
	return value, nil
}

// ownValue is Value for a caller that may change what it gets.
func (s *Store) ownValue(ctx context.Context, session string, b *Blob) (json.RawMessage, error) {
	value, err := s.Value(ctx, session, b)
	return bytes.Clone(value), err
}

// payload reads a payload that lies under an id of its own.
func (s *Store) payload(ctx context.Context, session string, b *Blob) ([]byte, error) {
	value := make([]byte, 0, min(b.Size, 1<<20)) // a damaged size must not ask for all memory
	for i := 0; len(value) < b.Size; i++ {
		e, err := s.kv.Get(ctx, chunkKey(session, b.Ref, i))
		if err != nil {
			what := fmt.Sprintf("payload %q of session %q, chunk %d", b.Ref, session, i)
			return nil, unread(what, err)
		}
		value = append(value, e.Value...)
	}
	if len(value) != b.Size {
		return nil, fmt.Errorf("%w: payload %q of session %q has %d bytes, not %d",
			ErrCorrupt, b.Ref, session, len(value), b.Size)
	}
	return value, nil
}

// unread returns the error for something that a record refers to and that could
// not be read. If it isn't there, that is damage. If the store could not be
// read just now, it is none, and may be tried again.
func unread(what string, err error) error {
	if errors.Is(err, kvstore.ErrNotFound) || errors.Is(err, kvstore.ErrCorrupt) {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, what, err)
	}
	return fmt.Errorf("session: %s: %w", what, err)
}

// write puts a large payload where its Ref says, before the commit that refers
// to it.
func (s *Store) write(ctx context.Context, session string, b *Blob) error {
	var batch kvstore.Batch
	for i, rest := 0, []byte(b.value); len(rest) > 0; i++ {
		n := min(len(rest), chunkSize)
		chunk := kvstore.Put{Key: chunkKey(session, b.Ref, i), Value: rest[:n]}
		batch.Puts = append(batch.Puts, chunk)
		rest = rest[n:]
		if len(batch.Puts) == batchChunks || len(rest) == 0 {
			// Writing a chunk twice does no harm, so an uncertain write is
			// simply repeated.
			if err := s.repeat(ctx, batch); err != nil {
				return err
			}
			batch.Puts = nil
		}
	}
	b.written = true
	return nil
}
