package session

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/kvstore"
)

// homeless removes payloads of sessions that aren't there. The first message of
// a session, of a child too, is written before the commit that makes it, if it
// is large. That commit may never come: the process dies, or the call that
// wanted the child is cancelled. The look takes one read for each session that
// has payloads, and not for each payload.
func (sw *sweep) homeless(ctx context.Context) error {
	return sw.store.firsts(ctx, "p", 4, func(parts []string, _ []byte) error {
		_, err := sw.store.kv.Get(ctx, headKey(parts[1]))
		if errors.Is(err, kvstore.ErrNotFound) {
			err = sw.oldPayloads(ctx, parts[1], nil)
		}
		return err
	})
}
