package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// Commits as a session makes them, each client for a session of its own: a head
// under its precondition, a new message, and an index entry that moves. The
// server writes as one that is meant to last.
func BenchmarkApply(b *testing.B) {
	server, err := postgrestest.Start(&postgrestest.Options{Fsync: true})
	postgrestest.Need(b, err)
	defer server.Close()
	for _, writers := range []int{1, 2, 4, 8, 16, 64} {
		for _, clients := range []int{1, 8, 64, 256} {
			b.Run(fmt.Sprintf("writers=%d/clients=%d", writers, clients), func(b *testing.B) {
				schema := migrated(b, server)
				s, err := postgres.Open(b.Context(), server.URL()+"&pool_max_conns=66",
					&postgres.Options{Schema: schema, Writers: writers})
				must(b, err)
				defer s.Close()
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var all sync.WaitGroup
				for c := range clients {
					all.Go(func() { commits(b, s, c, &left) })
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

func commits(b *testing.B, s *postgres.Store, client int, left *atomic.Int64) {
	value := make([]byte, 700)
	head := fmt.Appendf(nil, "h/%d", client)
	var r kvstore.Revision
	for i := 0; left.Add(-1) >= 0; i++ {
		batch := kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: head, Revision: r}},
			Puts: []kvstore.Put{{Key: head, Value: value},
				{Key: fmt.Appendf(nil, "m/%d/%08d", client, i), Value: value[:300]},
				{Key: fmt.Appendf(nil, "w/%08d/%d", i, client), Value: nil}},
		}
		if i > 0 {
			batch.Deletes = [][]byte{fmt.Appendf(nil, "w/%08d/%d", i-1, client)}
		}
		var err error
		if r, err = s.Apply(context.Background(), batch); err != nil {
			b.Error(err)
			return
		}
	}
}
