package postgres

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/kvstore"
)

// querier is a connection, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Conn() *pgx.Conn
}

// Get implements [kvstore.Store].
func (s *Store) Get(ctx context.Context, key []byte) (e kvstore.Entry, err error) {
	err = s.read(ctx, func(ctx context.Context, q querier) error {
		e, err = s.get(ctx, q, key)
		return err
	})
	return e, err
}

// Scan implements [kvstore.Store].
func (s *Store) Scan(ctx context.Context, r kvstore.Range) (p kvstore.Page, err error) {
	err = s.read(ctx, func(ctx context.Context, q querier) error {
		p, err = s.scan(ctx, q, r)
		return err
	})
	return p, err
}

// maxReads is how often a read is tried: after a restart of the server, the pool
// may have several connections that are broken.
const maxReads = 8

// read calls f with a connection, again if that was broken, or the server's
// isolation asks for it.
func (s *Store) read(ctx context.Context, f func(context.Context, querier) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.reads.Done()
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	for n := 1; ; n++ {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		err = f(ctx, conn)
		broken := conn.Conn().IsClosed()
		conn.Release()
		if !broken && !IsRetryable(err) || n == maxReads || ctx.Err() != nil {
			return err
		}
	}
}

func (s *Store) get(ctx context.Context, q querier, key []byte) (kvstore.Entry, error) {
	if len(key) == 0 || len(key) > kvstore.MaxKey {
		return kvstore.Entry{}, kvstore.ErrNotFound
	}
	var standby bool
	var now time.Time
	var value []byte
	var revision *int64
	asked := time.Now()
	err := q.QueryRow(ctx, s.text.get, mode(s.o, q, key)...).Scan(&standby, &now, &value, &revision)
	if err == nil && standby {
		err = ErrStandby
	}
	if err != nil {
		return kvstore.Entry{}, s.told("get", key, err)
	}
	s.time.Observe(asked, now)
	if revision == nil {
		return kvstore.Entry{}, kvstore.ErrNotFound
	}
	return kvstore.Entry{Key: bytes.Clone(key), Value: value,
		Revision: kvstore.Revision(*revision)}, nil
}

func (s *Store) scan(ctx context.Context, q querier, r kvstore.Range) (kvstore.Page, error) {
	p := kvstore.NewPager(r)
	low, high := p.Seek(), end(r)
	if bytes.Compare(low, high) >= 0 {
		return p.Page(), nil
	}
	most := r.Limit
	if most <= 0 || most > kvstore.MaxPage {
		most = kvstore.MaxPage
	}
	if low == nil {
		low = []byte{} // nil would be NULL
	}
	// One more than the page holds tells whether there is more.
	rows, err := q.Query(ctx, s.text.scan,
		mode(s.o, q, low, high, most+1, int64(kvstore.MaxPageBytes))...)
	if err != nil {
		return kvstore.Page{}, s.told("scan", low, err)
	}
	defer rows.Close()
	for full := false; rows.Next(); {
		var standby bool
		var key, value []byte
		var size *int
		var revision *int64 // nil: there is no entry
		err := rows.Scan(&standby, &key, &value, &size, &revision)
		if err == nil && standby {
			err = ErrStandby
		}
		if err != nil {
			return kvstore.Page{}, s.told("scan", low, err)
		}
		if revision == nil {
			continue
		}
		if full = full || !p.Takes(key, *size); !full {
			p.Add(key, value, kvstore.Revision(*revision))
		}
	}
	if err := rows.Err(); err != nil {
		return kvstore.Page{}, s.told("scan", low, err)
	}
	return p.Page(), nil
}

// beyond is greater than every key.
var beyond = bytes.Repeat([]byte{0xff}, kvstore.MaxKey+1)

// end returns the least key that lies after a range.
func end(r kvstore.Range) []byte {
	end := beyond
	for n := len(r.Prefix); n > 0; n-- {
		if last := r.Prefix[n-1]; last < 0xff {
			end = append(bytes.Clone(r.Prefix[:n-1]), last+1)
			break
		}
	}
	if len(r.Before) > 0 && bytes.Compare(r.Before, end) < 0 {
		return r.Before
	}
	return end
}
