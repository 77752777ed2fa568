package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermata-ai/fermata/kvstore"
)

// Get implements [kvstore.Store].
func (s *Store) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if err := s.begin(ctx); err != nil {
		return kvstore.Entry{}, err
	}
	defer s.calls.Done()
	if len(key) == 0 || len(key) > kvstore.MaxKey {
		return kvstore.Entry{}, kvstore.ErrNotFound
	}
	r, err := s.client.Get(ctx, s.key(key))
	if err != nil {
		return kvstore.Entry{}, fmt.Errorf("etcd: %w", err)
	}
	s.saw(r.Header)
	if len(r.Kvs) == 0 {
		return kvstore.Entry{}, kvstore.ErrNotFound
	}
	return kvstore.NewEntry(key, r.Kvs[0].Value, kvstore.Revision(r.Kvs[0].ModRevision)), nil
}

// A page is filled by several reads, all as of the first one's revision. Values
// may be large, and etcd puts all that it is asked for into one answer: so the
// first read is small, and each next one at most twice as long.
const (
	firstRead = 16
	longest   = 256
)

// Scan implements [kvstore.Store].
func (s *Store) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if err := s.begin(ctx); err != nil {
		return kvstore.Page{}, err
	}
	defer s.calls.Done()
	for tries := 0; ; tries++ {
		p, whole, err := s.page(ctx, r)
		if err != nil {
			return kvstore.Page{}, fmt.Errorf("etcd: %w", err)
		}
		// What was read of one whose history is gone is of one moment, and a
		// page may be short.
		if whole || tries == retries {
			return p, nil
		}
	}
}

// retries is how often a page is read anew because history was compacted while
// it was read, which takes minutes to happen unless a server is set to less.
const retries = 3

// page reads a page. It isn't whole if etcd has forgotten the revision of the
// first read meanwhile, which has found something.
func (s *Store) page(ctx context.Context, r kvstore.Range) (p kvstore.Page, whole bool, err error) {
	pager := kvstore.NewPager(r)
	read := reader{s: s, next: s.data + string(pager.Seek()), end: s.end(r), limit: firstRead}
	if read.limit > r.Limit && r.Limit > 0 {
		read.limit = r.Limit + 1 // one more tells whether there is more
	}
	for {
		found, err := read.more(ctx)
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			p, err := pager.Broken(err)
			return p, false, err
		case err != nil:
			return p, false, err
		}
		for _, e := range found {
			key := e.Key[len(s.data):]
			if !pager.Takes(key, len(e.Value)) {
				return pager.Page(), true, nil
			}
			pager.Add(key, e.Value, kvstore.Revision(e.ModRevision))
		}
		if read.done {
			return pager.Page(), true, nil
		}
	}
}

// reader reads a range piece by piece.
type reader struct {
	s         *Store
	next, end string
	limit     int
	at        int64 // the revision of all reads; zero: there was none
	done      bool
}

func (r *reader) more(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	if r.next >= r.end {
		r.done = true
		return nil, nil
	}
	found, err := r.s.client.Get(ctx, r.next, clientv3.WithRange(r.end),
		clientv3.WithLimit(int64(r.limit)), clientv3.WithRev(r.at))
	if err != nil {
		return nil, err
	}
	r.s.saw(found.Header)
	if r.at == 0 {
		r.at = found.Header.Revision
	}
	r.limit = min(2*r.limit, longest)
	r.done = !found.More
	if n := len(found.Kvs); n > 0 {
		r.next = string(found.Kvs[n-1].Key) + "\x00"
	}
	return found.Kvs, nil
}

// end returns the key behind a range, as etcd has it.
func (s *Store) end(r kvstore.Range) string {
	end := clientv3.GetPrefixRangeEnd(s.data + string(r.Prefix))
	if before := s.key(r.Before); len(r.Before) > 0 && before < end {
		return before
	}
	return end
}
