package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// Answers that came under an outside key before any call had the key. Some
// senders never deliver again, so such an answer may be kept. Its receiver
// writes it under the key, and then looks whether a call has the key by now. A
// pause with a key reads what is kept under it, on the condition that this
// stays so until its commit, and judges it in that commit. So either the pause
// finds the answer, or the receiver finds the pause.

// Keeping bounds what is kept under keys that no call has yet.
type Keeping struct {
	For  time.Duration // how long an answer is kept
	Keys int           // how many keys have one, in the whole store
}

// The bounds of one key.
const (
	keptAnswers = 8
	keptBytes   = 240 << 10 // of their payloads together
	keptChunk   = 60 << 10
)

// kept is what is kept under a key.
type kept struct {
	Answers []keptAnswer `json:"answers"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// keptAnswer is an answer that waits for its pause. Its payload lies beside it.
type keptAnswer struct {
	ID        int       `json:"id"` // among those of its key
	Kind      Kind      `json:"kind"`
	Size      int       `json:"size"` // of the payload
	Hash      string    `json:"hash"`
	Actor     string    `json:"by,omitzero"`
	Delivery  string    `json:"delivery,omitzero"`
	Sender    string    `json:"sender,omitzero"`
	Retryable bool      `json:"may_pass,omitzero"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (k *kept) check() error {
	for i, a := range k.Answers {
		if a.ID < 1 || a.Size < 1 || a.Size > keptBytes || a.Hash == "" || a.Until.Before(a.At) ||
			a.Kind != KindComplete && a.Kind != KindFail || i > 0 && a.ID <= k.Answers[i-1].ID {
			return errIncomplete
		}
	}
	if len(k.Answers) == 0 || len(k.Answers) > keptAnswers {
		return errIncomplete
	}
	return nil
}

func keptKey(tool, key string) []byte { return kvstore.Key("K", tool, key) }

func keptChunkKey(tool, key string, id, chunk int) []byte {
	return kvstore.Key("E", tool, key, strconv.Itoa(id), padded(chunk, 2))
}

func (a *keptAnswer) chunks() int { return (a.Size + keptChunk - 1) / keptChunk }

func (a *keptAnswer) keys(tool, key string) [][]byte {
	all := make([][]byte, a.chunks())
	for i := range all {
		all[i] = keptChunkKey(tool, key, a.ID, i)
	}
	return all
}

func (a *keptAnswer) receipt() Receipt {
	return Receipt{Kind: a.Kind, Hash: a.Hash, Actor: a.Actor, Delivery: a.Delivery, At: a.At,
		Fate: Kept}
}

// Keep keeps an answer under an outside key that no call has yet. Known
// reports that a call has the key by now: then nothing is kept, and the answer
// goes there. Its receipt has no call, and the fate Kept.
func (s *Store) Keep(
	ctx context.Context, k OutsideKey, in *Incoming, most Keeping,
) (rc Receipt, known bool, err error) {
	value := in.Payload.JSON()
	if len(value) > keptBytes {
		return rc, false, fmt.Errorf("%w: %d bytes, at most %d are", ErrNotKept, len(value), keptBytes)
	}
	a := keptAnswer{Kind: in.Kind, Size: len(value), Hash: in.Hash, Actor: in.Actor,
		Delivery: in.Delivery, Sender: in.Sender, Retryable: in.Retryable, At: s.Now()}
	a.Until = a.At.Add(most.For)
	for lost := tries(0); ; {
		if known, err = s.keyIsKnown(ctx, k); known || err != nil {
			return rc, known, err
		}
		batch, rc, err := s.keepBatch(ctx, k, &a, value, most)
		switch {
		case err != nil:
		case !rc.Duplicate:
			_, err = s.kv.Apply(ctx, batch)
		case lost > 0 && rc.At.Equal(a.At) && rc.Actor == a.Actor && rc.Delivery == a.Delivery:
			rc.Duplicate = false // a try before has written it after all
		}
		if lost.again(ctx, err) {
			continue
		}
		if err != nil {
			return rc, false, err
		}
		if known, err = s.keyIsKnown(ctx, k); known && err == nil {
			known, err = s.takeBack(ctx, k, a.ID)
		}
		return rc, known, err
	}
}

// keepBatch returns the batch that adds an answer to those of its key, and the
// answer's receipt.
func (s *Store) keepBatch(
	ctx context.Context, k OutsideKey, a *keptAnswer, value json.RawMessage, most Keeping,
) (b kvstore.Batch, rc Receipt, err error) {
	old, rev, err := s.kept(ctx, k.Tool, k.Key)
	if err != nil {
		return b, rc, err
	}
	b.Preconditions = []kvstore.Precondition{{Key: keptKey(k.Tool, k.Key), Revision: rev}}
	now, size := kept{Rest: old.Rest}, a.Size
	a.ID = 0
	for _, o := range old.Answers {
		a.ID = max(a.ID, o.ID)
		if !o.Until.After(a.At) {
			b.Deletes = append(b.Deletes, o.keys(k.Tool, k.Key)...)
			continue
		}
		if o.Kind == a.Kind && o.Hash == a.Hash && o.Sender == a.Sender {
			rc = o.receipt()
			rc.Duplicate, a.ID = true, o.ID
			return b, rc, nil
		}
		now.Answers = append(now.Answers, o)
		size += o.Size
	}
	a.ID++
	switch {
	case len(now.Answers) == keptAnswers || size > keptBytes:
		return b, rc, fmt.Errorf("%w: %d are kept under the key %q of tool %q already", ErrNotKept,
			len(now.Answers), k.Key, k.Tool)
	case rev == 0:
		if err := s.roomForAKey(ctx, most.Keys); err != nil {
			return b, rc, err
		}
	}
	now.Answers = append(now.Answers, *a)
	encoded, err := encode(&now)
	b.Puts = []kvstore.Put{{Key: keptKey(k.Tool, k.Key), Value: encoded}}
	for i, key := range a.keys(k.Tool, k.Key) {
		chunk := value[i*keptChunk : min(len(value), (i+1)*keptChunk)]
		b.Puts = append(b.Puts, kvstore.Put{Key: key, Value: chunk})
	}
	return b, a.receipt(), err
}

// takeBack removes a kept answer, since a call has the key by now. It reports
// whether the answer is to be delivered: if the pause's commit found it there,
// it was judged.
func (s *Store) takeBack(ctx context.Context, k OutsideKey, id int) (deliver bool, err error) {
	for lost := tries(0); ; {
		old, rev, err := s.kept(ctx, k.Tool, k.Key)
		at := slices.IndexFunc(old.Answers, func(a keptAnswer) bool { return a.ID == id })
		if at < 0 || err != nil {
			return deliver, err
		}
		b := kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: keptKey(k.Tool, k.Key), Revision: rev}},
			Deletes:       old.Answers[at].keys(k.Tool, k.Key),
		}
		old.Answers = slices.Delete(old.Answers, at, at+1)
		if len(old.Answers) == 0 {
			b.Deletes = append(b.Deletes, keptKey(k.Tool, k.Key))
		} else {
			encoded, err := encode(&old)
			if err != nil {
				return false, err
			}
			b.Puts = []kvstore.Put{{Key: keptKey(k.Tool, k.Key), Value: encoded}}
		}
		_, err = s.kv.Apply(ctx, b)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, kvstore.ErrUncertain):
			deliver = true // delivered twice, it is a duplicate of itself
		}
		if !lost.again(ctx, err) {
			return deliver, err
		}
	}
}

// roomForAKey returns why no further key may have something kept, or nil.
func (s *Store) roomForAKey(ctx context.Context, most int) error {
	n := 0
	for _, err := range s.scan(ctx, kvstore.Key("K")) {
		if err != nil {
			return err
		}
		if n++; n >= most {
			return fmt.Errorf("%w: answers are kept under %d keys that no call has yet", ErrNotKept, n)
		}
	}
	return nil
}

// keyIsKnown reports whether a call has, or had, the outside key.
func (s *Store) keyIsKnown(ctx context.Context, k OutsideKey) (bool, error) {
	for _, err := range s.scan(ctx, kvstore.Key("k", k.Tool, k.Key)) {
		return err == nil, err
	}
	return false, nil
}

// kept reads what is kept under a key. Revision zero: nothing is.
func (s *Store) kept(ctx context.Context, tool, key string) (kept, kvstore.Revision, error) {
	return readKept(ctx, s.kv, keptKey(tool, key))
}

func readKept(ctx context.Context, kv *engine, at []byte) (k kept, rev kvstore.Revision, err error) {
	e, err := kv.Get(ctx, at)
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return k, 0, nil
	case err != nil:
		return k, 0, err
	}
	return k, e.Revision, decode(at, e.Value, &k)
}

// takeKept judges what was kept for the open pause of a call, in the order in
// which it came. What doesn't fit is refused, and noted; what comes after an
// answer that ended the pause is dropped, as a conflict with that.
func (tx *Tx) takeKept(c *Call, h *Hold) error {
	p := c.Pause
	if p == nil || p.Key == "" || p.Gate != "" || h.Fits == nil {
		return nil
	}
	toolName, key, number := c.Tool, p.Key, c.Pauses
	at := keptKey(toolName, key)
	k, rev, err := readKept(tx.ctx, tx.kv, at)
	if err != nil {
		return err
	}
	tx.only = append(tx.only, kvstore.Precondition{Key: at, Revision: rev})
	if rev == 0 {
		return nil
	}
	tx.delete(at)
	for _, a := range k.Answers {
		keys := a.keys(toolName, key)
		if a.Until.After(tx.Now) && c.Status == Pending && c.Pauses == number {
			if err := tx.judgeKept(c, h, &a, keys); err != nil {
				return err
			}
		}
		for _, chunk := range keys {
			tx.delete(chunk)
		}
	}
	return nil
}

func (tx *Tx) judgeKept(c *Call, h *Hold, a *keptAnswer, chunks [][]byte) error {
	payload, err := h.keptPayload(tx, a, chunks)
	if err != nil {
		return err
	}
	in := &Incoming{Pause: PauseID(c.ID, c.Pauses), Kind: a.Kind, Payload: payload, Hash: a.Hash,
		Sender: a.Sender, Retryable: a.Retryable, Actor: a.Actor, Delivery: a.Delivery}
	if a.Kind == KindComplete {
		in.Value = payload.JSON()
	}
	rc, err := tx.Answer(in, h.Fits)
	if err != nil || rc.Err == nil {
		return err
	}
	if c.Status != Pending {
		return nil
	}
	rc.Fate, rc.Sender = Refused, a.Sender
	tx.putReceipt(rc)
	own := *c.Pause // readers of the head see that one: it must not change
	own.Refused, c.Pause = true, &own
	return nil
}

// keptPayload reads the payload of a kept answer. A transition that runs again
// is given the same one, which may have been written by then.
func (h *Hold) keptPayload(tx *Tx, a *keptAnswer, chunks [][]byte) (*Blob, error) {
	name := string(chunks[0]) + a.Hash
	if b := h.kept[name]; b != nil {
		return b, nil
	}
	var value []byte
	for _, key := range chunks {
		e, err := tx.kv.Get(tx.ctx, key)
		if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
			return nil, err
		}
		value = append(value, e.Value...)
	}
	if len(value) != a.Size {
		return nil, fmt.Errorf("%w: %s has %d bytes of %d", ErrCorrupt, keyName(chunks[0]),
			len(value), a.Size)
	}
	b, err := NewBlob(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, keyName(chunks[0]), err)
	}
	if h.kept == nil {
		h.kept = map[string]*Blob{}
	}
	h.kept[name] = b
	return b, nil
}

// unkept removes answers that were kept too long.
func (sw *sweep) unkept(ctx context.Context) error {
	for e, err := range sw.store.scan(ctx, kvstore.Key("K")) {
		if err != nil {
			return err
		}
		var k kept
		parts, err := kvstore.Parts(e.Key)
		if err == nil {
			err = decode(e.Key, e.Value, &k)
		}
		if err != nil || len(parts) != 3 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		over := kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: e.Key, Revision: e.Revision}},
			Deletes:       [][]byte{e.Key},
		}
		lasts := false
		for _, a := range k.Answers {
			lasts = lasts || a.Until.After(sw.now)
			over.Deletes = append(over.Deletes, a.keys(parts[1], parts[2])...)
		}
		if lasts {
			continue
		}
		if _, err := sw.store.kv.Apply(ctx, over); err != nil && !errors.Is(err, kvstore.ErrConflict) {
			return err
		}
		sw.swept.Entries++
	}
	return nil
}
