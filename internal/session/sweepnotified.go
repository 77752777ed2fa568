package session

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/kvstore"
)

// notified removes what sessions would tell the outside that are gone with their
// tombstones: no process has sent it in all that time.
func (sw *sweep) notified(ctx context.Context) error {
	for e, err := range sw.store.scan(ctx, kvstore.Key("O")) {
		if err != nil {
			return err
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) < 4 {
			continue // Check reports it
		}
		_, err = sw.store.kv.Get(ctx, headKey(parts[3]))
		if !errors.Is(err, kvstore.ErrNotFound) {
			if err != nil {
				return err
			}
			continue
		}
		for _, kind := range []string{"N", "D", "L"} {
			if err := sw.store.deleteAll(ctx, kvstore.Key(kind, parts[3])); err != nil {
				return err
			}
		}
		if err := sw.store.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Entries++
	}
	return nil
}
