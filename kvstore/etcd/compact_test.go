package etcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// late is a cluster that answers late, once, and gives out a revision a second.
type late struct {
	clientv3.KV
	begun time.Time
	slow  time.Duration // how late the next answer comes
	kept  time.Duration // the age of the youngest that it was to forget
	times int
}

func (l *late) Get(
	context.Context, string, ...clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	time.Sleep(l.slow)
	l.slow = 0
	revision := int64(time.Since(l.begun) / time.Second)
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: revision}}, nil
}

func (l *late) Compact(
	_ context.Context, revision int64, _ ...clientv3.CompactOption,
) (*clientv3.CompactResponse, error) {
	l.times++
	l.kept = min(l.kept, time.Since(l.begun.Add(time.Duration(revision)*time.Second)))
	return &clientv3.CompactResponse{}, nil
}

// What is younger than CompactEvery is kept, also after the cluster was away for
// a while, or the process was stopped.
func TestNothingYoungIsCompacted(t *testing.T) {
	const every = 5 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		l := &late{begun: time.Now(), slow: every - 10*time.Second, kept: time.Hour}
		s := &Store{client: &clientv3.Client{KV: l}, every: every, signals: &signals{key: "key"}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.compact(ctx); close(done) }()
		time.Sleep(time.Hour)
		stop()
		<-done
		if l.kept < every || l.times < 9 {
			t.Errorf("%d times, and what was %v old was to be forgotten", l.times, l.kept)
		}
	})
}
