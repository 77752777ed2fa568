package bolt

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/fermata-ai/fermata/kvstore"
)

// Get implements [kvstore.Store].
func (s *Store) Get(ctx context.Context, key []byte) (e kvstore.Entry, err error) {
	err = s.view(ctx, func(entries *bbolt.Bucket) error {
		stored := entries.Get(key)
		if stored == nil {
			return kvstore.ErrNotFound
		}
		value, revision, err := unseal(s.db.path, key, stored)
		if err != nil {
			return err
		}
		e = kvstore.NewEntry(key, value, revision)
		return nil
	})
	if err != nil {
		return kvstore.Entry{}, err
	}
	return e, nil
}

// Scan implements [kvstore.Store].
func (s *Store) Scan(ctx context.Context, r kvstore.Range) (page kvstore.Page, err error) {
	err = s.view(ctx, func(entries *bbolt.Bucket) (err error) {
		page, err = s.scan(entries.Cursor(), kvstore.NewPager(r))
		return err
	})
	if err != nil {
		return kvstore.Page{}, err
	}
	return page, nil
}

func (s *Store) scan(c *bbolt.Cursor, p *kvstore.Pager) (kvstore.Page, error) {
	for key, stored := c.Seek(p.Seek()); key != nil; key, stored = c.Next() {
		if !p.Takes(key, len(stored)-overhead) {
			break
		}
		value, revision, err := unseal(s.db.path, key, stored)
		if err != nil {
			return p.Broken(err)
		}
		p.Add(key, value, revision)
	}
	return p.Page(), nil
}

// view runs f on the entries in a transaction that ends before view returns; f
// copies what it wants to keep.
func (s *Store) view(ctx context.Context, f func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.queue.closed.Load() {
		return kvstore.ErrClosed
	}
	var seen uint64
	err := s.db.view(func(tx *bbolt.Tx) error {
		entries := tx.Bucket(entriesBucket)
		seen = entries.Sequence()
		return f(entries)
	})
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return kvstore.ErrClosed
	}
	if late := s.synced.await(ctx, seen); late != nil {
		return late
	}
	return err
}
