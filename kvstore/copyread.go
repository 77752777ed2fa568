package kvstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/maphash"
)

// reader goes through a store, page by page.
type reader struct {
	store Store
	page  Page
	at    int
	after []byte // the last key of the page before
	begun bool
}

// entry returns the entry that the reader is at; nil: there is none any more.
func (r *reader) entry(ctx context.Context) (*Entry, error) {
	for r.at == len(r.page.Entries) {
		if r.begun && !r.page.More {
			return nil, nil
		}
		var err error
		if r.page, err = r.store.Scan(ctx, Range{After: r.after}); err != nil {
			return nil, err
		}
		r.begun, r.at = true, 0
		if n := len(r.page.Entries); n > 0 {
			r.after = r.page.Entries[n-1].Key
		}
	}
	return &r.page.Entries[r.at], nil
}

// next goes to the next entry, and reports whether the page is at its end.
func (r *reader) next() (end bool) {
	r.at++
	return r.at == len(r.page.Entries)
}

// revisions are those of the entries of a store, in their order, as one number:
// equal ones are of a store that was not written to in between.
type revisions struct{ hash maphash.Hash }

// begin forgets what was added.
func (r *revisions) begin() { r.hash.Reset() }

// add adds an entry's.
func (r *revisions) add(e *Entry) {
	var numbers [16]byte
	binary.LittleEndian.PutUint64(numbers[:8], uint64(len(e.Key)))
	binary.LittleEndian.PutUint64(numbers[8:], uint64(e.Revision))
	r.hash.Write(numbers[:])
	r.hash.Write(e.Key)
}

// unchanged looks through the store of which the revisions are, and returns
// ErrChanged if it has others now.
func (r *revisions) unchanged(ctx context.Context, from Store) error {
	var now revisions
	now.hash.SetSeed(r.hash.Seed())
	all := reader{store: from}
	for {
		e, err := all.entry(ctx)
		switch {
		case err != nil:
			return err
		case e == nil && now.hash.Sum64() == r.hash.Sum64():
			return nil
		case e == nil:
			return ErrChanged
		}
		if !bytes.Equal(e.Key, copyIncarnation) {
			now.add(e)
		}
		all.next()
	}
}
