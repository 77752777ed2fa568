package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// A head that doesn't fit one value of the engine is written as a payload, and
// a notice of where that lies stands in its place. The payload is written
// before the commit that puts up its notice, is never changed, and goes when
// the next notice is up. So there is no head that can't be written, whatever
// its calls were told, and by how many.

// notice stands in place of a head that lies aside.
type notice struct {
	Version int    `json:"v"`
	ID      string `json:"id"`
	Aside   *Blob  `json:"aside"`

	Rest strictjson.Rest `json:"-"`
}

// noticeVersion keeps a program that knows no notices from taking one for a
// head without calls. No head has this version.
const noticeVersion = 2

// readNotice returns where the head lies, if b is a notice, and otherwise nil.
func readNotice(key, b []byte) *Blob {
	if !bytes.HasPrefix(b, []byte(`{"v":2,`)) {
		return nil
	}
	var n notice
	if strictjson.Read(b, &n) != nil || len(n.Rest) > 0 || n.Version != noticeVersion {
		return nil // of a later version, which decodeState finds out, or damaged
	}
	if n.Aside.Ref == "" || n.Aside.check() != nil || !endsWith(key, n.ID) {
		return nil
	}
	return n.Aside
}

// whole returns a head's entry with the head for its value. If the head lies
// aside, whole also returns where.
func (s *Store) whole(ctx context.Context, e kvstore.Entry) (kvstore.Entry, *Blob, error) {
	for {
		aside := readNotice(e.Key, e.Value)
		if aside == nil {
			return e, nil, nil
		}
		value, err := s.payload(ctx, lastPart(e.Key), aside)
		if err == nil {
			e.Value = value
			return e, aside, nil
		}
		if !errors.Is(err, kvstore.ErrNotFound) {
			return e, nil, err
		}
		now, again := s.kv.Get(ctx, e.Key)
		switch {
		case again != nil:
			return e, nil, again
		case now.Revision == e.Revision:
			// Not ErrNotFound: the session is there.
			return e, nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
		}
		e = now // another writer has put up the next notice in between
	}
}

func lastPart(key []byte) string {
	parts, err := kvstore.Parts(key)
	if err != nil || len(parts) == 0 {
		return ""
	}
	return parts[len(parts)-1]
}

// decodeHead reads the head of an entry, wherever it lies.
func (s *Store) decodeHead(ctx context.Context, e kvstore.Entry) (*State, error) {
	e, _, err := s.whole(ctx, e)
	if err != nil {
		return nil, err
	}
	return decodeState(e.Key, e.Value)
}

// putAside writes a head that is too large for its place, and returns the
// notice of it.
func (s *Store) putAside(ctx context.Context, id string, head []byte) (*Blob, []byte, error) {
	aside := &Blob{Ref: newPayloadID(), Size: len(head), value: head}
	if err := s.write(ctx, id, aside); err != nil {
		return nil, nil, err
	}
	b, err := encode(notice{Version: noticeVersion, ID: id, Aside: aside})
	return aside, b, err
}

// dropAside removes a head to which no notice points any more. After an error,
// a sweep removes the rest.
func (s *Store) dropAside(ctx context.Context, id string, aside *Blob) {
	if aside == nil {
		return
	}
	var batch kvstore.Batch
	for i := 0; i*chunkSize < aside.Size && len(batch.Deletes) < kvstore.MaxOperations; i++ {
		batch.Deletes = append(batch.Deletes, chunkKey(id, aside.Ref, i))
	}
	_ = s.repeat(ctx, batch)
}
