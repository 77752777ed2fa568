package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// schemas removes schemas that no open call names and that were not used for
// long. An earlier version noted no use; of its schemas the use is noted now.
func (sw *sweep) schemas(ctx context.Context) error {
	var errs []error
	for e, err := range sw.store.scan(ctx, kvstore.Key("s")) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 2 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		if sw.named[parts[1]] {
			continue
		}
		if err := sw.schema(ctx, parts[1], e); err != nil && len(errs) < maxSweepErrors {
			errs = append(errs, err) // the other schemas are swept all the same
		}
	}
	return errors.Join(errs...)
}

// schema sweeps one schema.
func (sw *sweep) schema(ctx context.Context, hash string, e kvstore.Entry) error {
	s, key := sw.store, schemaUseKey(hash)
	noted, err := s.kv.Get(ctx, key)
	if errors.Is(err, kvstore.ErrNotFound) {
		_, err = s.useSchema(ctx, hash, e.Value, sw.now)
		return err
	}
	if err != nil {
		return err
	}
	var use schemaUse
	if err := decode(key, noted.Value, &use); err != nil || sw.now.Sub(use.At) <= sw.keep.Schemas {
		return err
	}
	// A use that is noted at this moment makes this a conflict.
	err = s.repeat(ctx, kvstore.Batch{
		Preconditions: []kvstore.Precondition{{Key: key, Revision: noted.Revision},
			{Key: e.Key, Revision: e.Revision}},
		Deletes: [][]byte{e.Key, key},
	})
	switch {
	case err == nil:
		sw.swept.Schemas++
	case errors.Is(err, kvstore.ErrConflict):
		return nil
	}
	return err
}
