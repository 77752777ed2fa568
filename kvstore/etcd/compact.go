package etcd

import (
	"context"
	"time"
)

// compact has etcd forget, until ctx ends, what keys had before the time that
// lies s.every back. If several processes do it, the first one counts: for the
// others there is nothing left to forget, which is no failure. One that fails
// is made up for by the next.
func (s *Store) compact(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for before := int64(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if before > 0 {
			_, _ = s.client.Compact(ctx, before)
		}
		before = 0
		if now, err := s.client.Get(ctx, s.signals.key); err == nil {
			before = now.Header.Revision
		}
	}
}
