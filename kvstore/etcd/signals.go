package etcd

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermata-ai/fermata/kvstore"
)

// signals go through one key, which each process watches. A write to it has the
// sender and the topics. So a signal costs a commit of etcd, and those that
// come close together share it.
type signals struct {
	client *clientv3.Client
	key    string
	self   string // this sender
	out    *kvstore.Signals
	log    *slog.Logger
}

func newSignals(client *clientv3.Client, key string, log *slog.Logger) *signals {
	s := &signals{client: client, key: key, self: rand.Text(), log: log}
	s.out = kvstore.NewSignals(s.send)
	return s
}

const (
	sendEvery  = 10 * time.Millisecond // a process sends at most
	sendAtOnce = 500                   // topics, at most
	listenWait = time.Second           // before a watch that has ended is made anew
)

// send writes signals, and returns when further ones may be sent.
func (s *signals) send(ctx context.Context, topics []string) {
	for len(topics) > 0 && ctx.Err() == nil {
		n := min(len(topics), sendAtOnce)
		value := kvstore.Key(append([]string{s.self}, topics[:n]...)...)
		topics = topics[n:]
		_, _ = s.client.Put(ctx, s.key, string(value)) // what can't be sent is lost
		wait(ctx, sendEvery)
	}
}

// listen wakes those who watch, until ctx ends. The first of several watches
// that fail is logged.
func (s *signals) listen(ctx context.Context) {
	told := false
	for ctx.Err() == nil {
		within, cancel := context.WithCancel(ctx)
		writes := s.client.Watch(clientv3.WithRequireLeader(within), s.key,
			clientv3.WithCreatedNotify())
		s.out.WakeAll()
		for r := range writes {
			err := r.Err()
			if err != nil && !told && ctx.Err() == nil {
				s.log.Warn("kvstore/etcd: the watch has failed, so signals of other processes aren't "+
					"heard: polls find what they tell", "err", err)
			}
			told = err != nil
			for _, e := range r.Events {
				s.heard(e)
			}
		}
		cancel()
		wait(ctx, listenWait)
	}
}

func (s *signals) heard(e *clientv3.Event) {
	if e.Type != clientv3.EventTypePut {
		return
	}
	parts, err := kvstore.Parts(e.Kv.Value)
	if err != nil || len(parts) == 0 || parts[0] == s.self {
		return
	}
	for _, topic := range parts[1:] {
		s.out.Wake(topic)
	}
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
