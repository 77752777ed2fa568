package etcd

import "context"

// compact has etcd forget, until ctx ends, what keys had before the time that
// lies s.every back. That counts from when a revision was read, so a process that
// was stopped, or a cluster that answers late, takes nothing younger. If several
// processes do it, the first one counts: for the others there is nothing left to
// forget, which is no failure. One that fails is made up for by the next.
func (s *Store) compact(ctx context.Context) {
	for before := int64(0); ; {
		if wait(ctx, s.every); ctx.Err() != nil {
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
