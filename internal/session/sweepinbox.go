package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// unlisted removes the entries of pauses that are over: of sessions that were
// deleted with more than a commit has room for, and of what an older version
// has ended.
func (sw *sweep) unlisted(ctx context.Context, kind string) error {
	last := new(State) // as in index
	for e, err := range sw.store.scan(ctx, kvstore.Key(kind)) {
		if err != nil {
			return err
		}
		var entry pauseEntry
		parts, err := kvstore.Parts(e.Key)
		if err == nil {
			err = decode(e.Key, e.Value, &entry)
		}
		n := len(parts)
		if err != nil || n < 3 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		call, number := splitPause(parts[n-1])
		lists := func(st *State) bool {
			c := st.Call(call)
			return c != nil && c.Status == Pending && c.Pauses == number && st.listedAt(c, e.Key)
		}
		if last.ID == entry.Session && lists(last) {
			continue
		}
		st, err := sw.store.Load(ctx, entry.Session)
		if err != nil && !errors.Is(err, ErrUnknownSession) {
			continue // the sweep of that session returns the error
		}
		// The head is read after the entry, and a pause that is over is never
		// opened again.
		if err == nil {
			if last = st; lists(st) {
				continue
			}
		}
		if err := sw.store.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Entries++
	}
	return nil
}

// listedAt reports whether an open pause is listed under that key.
func (s *State) listedAt(c *Call, key []byte) bool {
	return bytes.Equal(key, listKey(c)) || bytes.Equal(key, s.treeKey(c))
}
