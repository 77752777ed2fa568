package session

import (
	"context"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// Delete leaves a tombstone of a session, by one commit, and then removes what
// belonged to it. Repeating it goes on where an earlier one was cut off.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.deleteIf(ctx, id, func(*Tx) bool { return true })
}

// deleteIf is Delete under a condition: may is asked in the transition, on the
// fresh head.
func (s *Store) deleteIf(ctx context.Context, id string, may func(*Tx) bool) error {
	deleted := false
	err := s.Update(ctx, id, func(tx *Tx) error {
		if deleted = !tx.Deleted.IsZero(); !deleted && may(tx) {
			tx.Delete()
			deleted = true
		}
		return nil
	})
	if err != nil || !deleted {
		return err
	}
	if err := s.deleteParts(ctx, id); err != nil {
		return fmt.Errorf("session %q is deleted, but not yet all that belonged to it: %w", id, err)
	}
	return nil
}

// deleteParts deletes what belongs to a session beside its head. Receipts and
// call records go too: the tombstone refuses what comes late.
func (s *Store) deleteParts(ctx context.Context, id string) error {
	for _, kind := range []string{"m", "c", "r", "e", "d", "g", "p", "u"} {
		if err := s.deleteAll(ctx, kvstore.Key(kind, id)); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes all keys under a prefix, some at a time.
func (s *Store) deleteAll(ctx context.Context, prefix []byte) error {
	for {
		page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: prefix, Limit: kvstore.MaxOperations})
		if err != nil {
			return err
		}
		var b kvstore.Batch
		for _, e := range page.Entries {
			b.Deletes = append(b.Deletes, e.Key)
		}
		if len(b.Deletes) > 0 {
			if err := s.repeat(ctx, b); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
	}
}
