package session

import (
	"encoding/json"
	"fmt"

	"github.com/rs/xid"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// What may stand in a head, in bytes: one payload up to inlineMax, all together
// up to inlineTotal.
const (
	inlineMax   = 1 << 10
	inlineTotal = 16 << 10
	payloadsMax = 192 << 10 // of payloads that lie outside and are written in the commit itself
	chunkSize   = 60 << 10  // of a payload that lies outside; below kvstore.MaxValue
	batchChunks = 8         // chunks written in one batch; below kvstore.MaxBatch
)

// Blob is a JSON value in a record: in place, or, where it is large, under an
// id of its own.
type Blob struct {
	Inline json.RawMessage `json:"json,omitzero"`
	Ref    string          `json:"ref,omitzero"`
	Size   int             `json:"size,omitzero"` // bytes, with Ref

	value   json.RawMessage // in the process that made it: what it stands for
	named   commitID        // with Ref: the update that it was named for; zero: to ride
	written bool            // with Ref: it lies where Ref says
	moved   *Blob           // what stands for it where readers already see it otherwise
}

// newPayloadID makes the id of a payload, which tells when that was made: a
// sweep spares young ones.
func newPayloadID() string { return "pl_" + xid.New().String() }

// NewBlob returns a JSON value for a transition to store; nil for none. The
// value is kept without white space between its tokens, so that it has the same
// bytes before and after it was stored.
func NewBlob(value json.RawMessage) (*Blob, error) {
	if len(value) == 0 {
		return nil, nil
	}
	compact, err := strictjson.Compact(value)
	if err != nil {
		return nil, fmt.Errorf("session: a payload is not JSON: %w", err)
	}
	return &Blob{value: compact}, nil
}

// StringBlob returns a string as a JSON value to store; nil for the empty one.
func StringBlob(s string) *Blob {
	if s == "" {
		return nil
	}
	return &Blob{value: strictjson.AppendString(nil, s)}
}

// JSON is the value, where it is at hand: in place, or in the process that made
// it. Store.Value reads any.
func (b *Blob) JSON() json.RawMessage {
	switch {
	case b == nil:
		return nil
	case b.value != nil:
		return b.value
	}
	return b.Inline
}

// place makes a payload ready to stand in a record. A large one is put
// elsewhere: with this commit if it fits one chunk, otherwise before it. A
// transition that runs again must place the same Blob. So the Blob is made
// outside the transition.
func (tx *Tx) place(b *Blob) *Blob { return tx.placeWithin(b, tx.room()) }

// placeBeside is place for a record beside the head, which has room enough.
func (tx *Tx) placeBeside(b *Blob) *Blob { return tx.placeWithin(b, inlineMax) }

func (tx *Tx) placeWithin(b *Blob, room int) *Blob {
	if b == nil || b.value == nil { // one that was read lies where it says
		return b
	}
	if b.written { // before a commit that has failed
		b = b.outside(tx.update)
	}
	if b.Ref == "" && len(b.value) > min(room, inlineMax) {
		if len(b.Inline) > 0 { // it rode where it had room, and readers see it there
			if b.moved == nil {
				b.moved = &Blob{value: b.value}
			}
			return tx.placeWithin(b.moved, room)
		}
		b.name(tx.update)
	}
	switch {
	case b.Ref == "":
		if len(b.Inline) == 0 { // else readers see it, and it must not change
			b.Inline = b.value
		}
	case b.Size <= chunkSize && tx.payloads+b.Size <= payloadsMax:
		tx.payloads += b.Size
		tx.put(chunkKey(tx.ID, b.Ref, 0), b.value)
	default:
		b = b.outside(tx.update)
		if !b.written {
			tx.large = append(tx.large, large{tx.ID, b})
		}
	}
	return b
}

func (b *Blob) name(update commitID) {
	b.Ref, b.Size, b.named = newPayloadID(), len(b.value), update
}

// outside returns what stands for a payload that is written before its commit:
// under a new id in each update. Since an earlier update, or since it rode,
// hours may have passed, and a sweep may be about to remove what lies under the
// id of then.
func (b *Blob) outside(update commitID) *Blob {
	if b.Ref == "" {
		b.name(update)
	}
	if b.named == update {
		return b
	}
	if b.moved == nil || b.moved.named != update {
		b.moved = &Blob{value: b.value}
		b.moved.name(update)
	}
	return b.moved
}

// check returns what is wrong with a blob that was read.
func (b *Blob) check() error {
	switch {
	case b == nil:
		return nil
	case (b.Ref == "") == (len(b.Inline) == 0):
		return fmt.Errorf("a payload must be in place or elsewhere")
	case b.Ref != "" && b.Size <= 0:
		return fmt.Errorf("payload %q has size %d", b.Ref, b.Size)
	}
	return nil
}

// blobs calls f for each payload that the head refers to or holds.
func (s *State) blobs(f func(*Blob)) {
	visit := func(b *Blob) {
		if b != nil {
			f(b)
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		c.Pause.blobs(visit)
		c.Answer.blobs(visit)
		c.Early.blobs(visit)
		for _, b := range c.Actions {
			visit(b)
		}
		for j := range c.Decisions {
			visit(c.Decisions[j].Edited)
			visit(c.Decisions[j].Why)
		}
		for j := range c.Again {
			visit(c.Again[j].Why)
		}
	}
	for i := range s.Outbox {
		if u := s.Outbox[i].Undo; u != nil {
			u.Pause.blobs(visit)
			u.Answer.blobs(visit)
		}
	}
}

// blobs calls visit for each payload of a pause. P may be nil.
func (p *Pause) blobs(visit func(*Blob)) {
	if p != nil {
		visit(p.Prompt)
		visit(p.Data)
		visit(p.Args)
		visit(p.Undo)
		if p.Await != nil {
			visit(p.Await.List)
		}
	}
}

// blobs calls visit for each payload of an answer. A may be nil.
func (a *Answer) blobs(visit func(*Blob)) {
	if a != nil {
		visit(a.Payload)
		visit(a.Data)
		visit(a.Prompt)
		visit(a.Awaited)
	}
}

// room is how many bytes of payload may still be put in place.
func (s *State) room() int {
	n := inlineTotal
	s.blobs(func(b *Blob) { n -= len(b.Inline) })
	return n
}
