package session

import (
	"context"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// Delete leaves a tombstone of a session, by one commit, and then removes what
// belonged to it. Repeating it goes on where an earlier one was cut off. By is
// who deletes it.
func (s *Store) Delete(ctx context.Context, id, by string) error {
	return s.deleteIf(ctx, id, by, func(*Tx) bool { return true })
}

// deleteIf is Delete under a condition: may is asked in the transition, on the
// fresh head.
func (s *Store) deleteIf(ctx context.Context, id, by string, may func(*Tx) bool) error {
	deleted := false
	err := s.Update(ctx, id, func(tx *Tx) error {
		if deleted = !tx.Deleted.IsZero(); !deleted && may(tx) {
			tx.Delete(by)
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
// call records go too: the tombstone refuses what comes late. Payloads that it
// still refers to stay until what it owes is carried out. What the outside is
// still to be told stays until it was sent.
func (s *Store) deleteParts(ctx context.Context, id string) error {
	h, err := s.head(ctx, id, nil)
	if err != nil {
		return err
	}
	used := h.payloads()
	for _, kind := range []string{"m", "c", "r", "e", "d", "g", "u", "z", "Y", "y", "q", "D", "Q",
		"V"} {
		if err := s.deleteAll(ctx, kvstore.Key(kind, id)); err != nil {
			return err
		}
	}
	return s.deleteBut(ctx, kvstore.Key("p", id), func(key []byte) bool {
		parts, err := kvstore.Parts(key)
		return err == nil && len(parts) == 4 && used[parts[2]]
	})
}

// payloads returns the ids of the payloads that a head refers to.
func (h *head) payloads() map[string]bool {
	used := map[string]bool{}
	h.state.blobs(func(b *Blob) { used[b.Ref] = true })
	if h.aside != nil {
		used[h.aside.Ref] = true
	}
	return used
}

// deleteAll deletes all keys under a prefix, some at a time.
func (s *Store) deleteAll(ctx context.Context, prefix []byte) error {
	return s.deleteBut(ctx, prefix, func([]byte) bool { return false })
}

// deleteBut is deleteAll but for some.
func (s *Store) deleteBut(ctx context.Context, prefix []byte, stays func(key []byte) bool) error {
	r := kvstore.Range{Prefix: prefix, Limit: kvstore.MaxOperations}
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil {
			return err
		}
		var b kvstore.Batch
		for _, e := range page.Entries {
			if r.After = e.Key; !stays(e.Key) {
				b.Deletes = append(b.Deletes, e.Key)
			}
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
