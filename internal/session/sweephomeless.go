package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// homeless removes payloads of sessions that aren't there. The first message of
// a session, of a child too, is written before the commit that makes it, if it
// is large. That commit may never come: the process dies, or the call that
// wanted the child is cancelled. The look takes one read for each session that
// has payloads, and not for each payload.
func (sw *sweep) homeless(ctx context.Context) error {
	prefix := kvstore.Key("p")
	for r := (kvstore.Range{Prefix: prefix, Limit: 1}); ; {
		page, err := sw.store.kv.Scan(ctx, r)
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		e := page.Entries[0]
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 4 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		_, err = sw.store.kv.Get(ctx, headKey(parts[1]))
		if errors.Is(err, kvstore.ErrNotFound) {
			err = sw.homelessOf(ctx, parts[1])
		}
		if err != nil {
			return err
		}
		// Behind all that the session has: no id of a payload begins so.
		r.After = append(kvstore.Key("p", parts[1]), 0xff)
	}
}

// homelessOf is homeless for one session: it removes what is old.
func (sw *sweep) homelessOf(ctx context.Context, id string) error {
	for e, err := range sw.store.scan(ctx, kvstore.Key("p", id)) {
		if err != nil {
			return err
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 4 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		if sw.now.Sub(madeAt(parts[2])) <= sw.keep.Orphans {
			continue // perhaps the commit that makes the session is on its way
		}
		if err := sw.store.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Payloads++
	}
	return nil
}
