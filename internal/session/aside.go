package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// A head that doesn't fit one value of the engine is written as a payload, and
// a signpost of where that lies stands in its place. The payload is written
// before the commit that puts up its signpost, is never changed, and goes when
// the next signpost is up. So there is no head that can't be written, whatever
// its calls were told, and by how many.

// signpost stands in place of a head that lies aside.
type signpost struct {
	Version int    `json:"v"`
	ID      string `json:"id"`
	Aside   *Blob  `json:"aside"`

	Rest strictjson.Rest `json:"-"`
}

// signpostVersion keeps a program that knows no signposts from taking one for a
// head without calls. No head has this version.
const signpostVersion = 2

// readSignpost returns where the head lies, if b is a signpost, and otherwise
// nil.
func readSignpost(key, b []byte) *Blob {
	if !bytes.HasPrefix(b, []byte(`{"v":2,`)) {
		return nil
	}
	var n signpost
	if strictjson.Read(b, &n) != nil || len(n.Rest) > 0 || n.Version != signpostVersion {
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
		aside := readSignpost(e.Key, e.Value)
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
		e = now // another writer has put up the next signpost in between
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
// signpost of it.
func (s *Store) putAside(ctx context.Context, id string, head []byte) (*Blob, []byte, error) {
	// A write that is left behind may still read it after the head's own buffer is
	// used again.
	aside := &Blob{Ref: newPayloadID(), Size: len(head), value: slices.Clone(head)}
	if err := s.write(ctx, id, aside); err != nil {
		return nil, nil, err
	}
	b, err := encode(signpost{Version: signpostVersion, ID: id, Aside: aside})
	return aside, b, err
}

// dropAside removes a head to which no signpost points any more. After an
// error, a sweep removes the rest.
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
