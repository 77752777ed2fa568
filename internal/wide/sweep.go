package wide

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/kvstore"
)

// Sweep forgets changes that have outlived their retention, and returns how
// many. Handles that have outlived theirs are among what is due.
func (s *Store) Sweep(ctx context.Context) (gone int, err error) {
	var errs []error
	r := kvstore.Range{Prefix: kvstore.Key(kind, "s"), Limit: toldAtOnce}
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil {
			return gone, errors.Join(append(errs, err)...)
		}
		for _, e := range page.Entries {
			r.After = e.Key
			var sh shard
			err := decode(e, &sh)
			for more := err == nil; more && err == nil; {
				var n int
				n, more, err = s.trim(ctx, sh.Scope, sh.Number)
				gone += n
			}
			if err != nil {
				errs = append(errs[:min(len(errs), 8)], err)
			}
			if ctx.Err() != nil {
				return gone, errors.Join(append(errs, context.Cause(ctx))...)
			}
		}
		if !page.More {
			return gone, errors.Join(errs...)
		}
	}
}

// trimAtOnce is how many changes a commit forgets.
const trimAtOnce = 64

// trim forgets some changes of a shard.
func (s *Store) trim(ctx context.Context, scope string, n int) (gone int, more bool, err error) {
	sh, key := shard{Scope: scope, Number: n}, shardKey(scope, n)
	rev, err := s.read(ctx, key, &sh)
	if err != nil || rev == 0 {
		return 0, false, err
	}
	page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: changesPrefix(scope, n), Limit: trimAtOnce})
	if err != nil {
		return 0, false, err
	}
	b := kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: key, Revision: rev}}}
	for _, e := range page.Entries {
		var c Change
		if err := decode(e, &c); err != nil {
			return 0, false, err
		}
		if s.sessions.Now().Sub(c.At) <= s.o.Changes {
			break
		}
		b.Deletes = append(b.Deletes, e.Key)
	}
	if gone = len(b.Deletes); gone == 0 {
		return 0, false, nil
	}
	sh.Trimmed += gone
	value, err := encode(&sh)
	if err != nil {
		return 0, false, err
	}
	b.Puts = []kvstore.Put{{Key: key, Value: value}}
	_, err = s.kv.Apply(ctx, b)
	if errors.Is(err, kvstore.ErrConflict) || errors.Is(err, kvstore.ErrUncertain) {
		return 0, ctx.Err() == nil, nil // looked at again
	}
	return gone, gone == trimAtOnce, err
}
