package etcdserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
)

// start starts a server of the test's own.
func start(t *testing.T, c etcdserver.Config) (url string) {
	t.Helper()
	c.Dir = t.TempDir()
	s, err := etcdserver.Start(c)
	must(t, err)
	t.Cleanup(s.Close)
	return "etcd://" + s.Addr()
}

// A server that is set to take less than every engine must is refused, with
// what to set.
func TestServersThatTakeTooLittleAreRefused(t *testing.T) {
	for want, c := range map[string]etcdserver.Config{
		"--max-txn-ops":       {MaxTxnOps: 99},
		"--max-request-bytes": {MaxRequestBytes: 400 << 10},
	} {
		_, err := etcd.Open(t.Context(), start(t, c), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is too low: %v", want, err)
		}
	}
	least := etcdserver.Config{MaxTxnOps: kvstore.MaxOperations, MaxRequestBytes: 576 << 10}
	largest(t, open(t, start(t, least), &etcd.Options{Prefix: strings.Repeat("p", 64)}))
}

// largest applies a batch that is as large as one may be.
func largest(t *testing.T, s *etcd.Store) {
	t.Helper()
	var b kvstore.Batch
	for i := range kvstore.MaxOperations {
		key := append(bytes.Repeat([]byte{'k'}, kvstore.MaxKey-2), fmt.Sprintf("%02d", i)...)
		value := make([]byte, kvstore.MaxBatch/kvstore.MaxOperations-kvstore.MaxKey)
		b.Puts = append(b.Puts, kvstore.Put{Key: key, Value: value})
	}
	b.Puts[0].Value = make([]byte, len(b.Puts[0].Value)+kvstore.MaxBatch-b.Size())
	if b.Size() != kvstore.MaxBatch {
		t.Fatalf("a batch of %d bytes", b.Size())
	}
	_, err := s.Apply(t.Context(), b)
	must(t, err)
}

// A batch beyond the server's quota was certainly not applied, and what is there
// can be read and deleted. Once there is space again, all goes on. If something
// else writes just then, such as the clock, a batch of new keys is uncertain.
func TestQuota(t *testing.T) {
	url := start(t, etcdserver.Config{Quota: 4 << 20})
	s := open(t, url, &etcd.Options{CompactEvery: -1})
	value := make([]byte, kvstore.MaxValue)
	first, err := s.Apply(t.Context(), puts("0", nil))
	must(t, err)
	written, last := 0, error(nil)
	for i := 1; i < 1000 && (last == nil || errors.Is(last, kvstore.ErrUncertain)); i++ {
		key := fmt.Sprint(i)
		_, last = s.Apply(t.Context(), puts(key, value))
		if _, err := s.Get(t.Context(), []byte(key)); err == nil {
			written++
		} else if !errors.Is(err, kvstore.ErrNotFound) || last == nil {
			t.Fatalf("batch %d: %v, and it is read as %v", i, last, err)
		}
	}
	if last == nil || written == 0 || errors.Is(last, kvstore.ErrUncertain) ||
		!strings.Contains(last.Error(), "space") {
		t.Fatalf("after %d batches: %v", written, last)
	}
	refused := []kvstore.Batch{
		puts("new", nil),
		{Preconditions: []kvstore.Precondition{{Key: []byte("0"), Revision: first}},
			Puts: []kvstore.Put{{Key: []byte("0"), Value: value}}},
	}
	for _, b := range refused {
		var err error
		for try := 0; try == 0 || try < 5 && errors.Is(err, kvstore.ErrUncertain); try++ {
			_, err = s.Apply(t.Context(), b)
		}
		if err == nil || errors.Is(err, kvstore.ErrUncertain) {
			t.Errorf("beyond the quota: %v", err)
		}
	}
	p, err := s.Scan(t.Context(), kvstore.Range{})
	must(t, err)
	for n := len(p.Entries); p.More; n += len(p.Entries) {
		p, err = s.Scan(t.Context(), kvstore.Range{After: p.Entries[len(p.Entries)-1].Key})
		must(t, err)
		if !p.More && n+len(p.Entries) != written+1 {
			t.Errorf("%d of %d batches are stored", n+len(p.Entries), written+1)
		}
	}
	if e, err := s.Get(t.Context(), []byte("0")); err != nil || e.Revision != first {
		t.Errorf("%+v, %v", e, err)
	}
	again := open(t, url, &etcd.Options{CompactEvery: -1}) // a full server can be opened
	for i := range written {
		_, err := again.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{fmt.Append(nil, i+1)}})
		must(t, err)
	}
	makeSpace(t, url)
	_, err = s.Apply(t.Context(), puts("new", value))
	must(t, err)
}

func puts(key string, value []byte) kvstore.Batch {
	return kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: value}}}
}

// makeSpace does what an operator does: compact, defragment, disarm the alarm.
func makeSpace(t *testing.T, url string) {
	t.Helper()
	addr := strings.TrimPrefix(url, "etcd://")
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	must(t, err)
	defer c.Close()
	now, err := c.Get(t.Context(), "any")
	must(t, err)
	_, err = c.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	_, err = c.Defragment(t.Context(), addr)
	must(t, err)
	_, err = c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	must(t, err)
}

// The history of keys is forgotten after a while, and not before.
func TestHistoryIsCompacted(t *testing.T) {
	url := start(t, etcdserver.Config{})
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{strings.TrimPrefix(url, "etcd://")}})
	must(t, err)
	defer c.Close()
	forgotten := func(s *etcd.Store, wait time.Duration) bool {
		r, err := s.Apply(t.Context(), puts("a", []byte("1")))
		must(t, err)
		_, err = s.Apply(t.Context(), puts("a", []byte("2")))
		must(t, err)
		end := time.After(wait)
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for {
			if _, err := c.Get(t.Context(), "any", clientv3.WithRev(int64(r))); err != nil {
				return true
			}
			select {
			case <-every.C:
			case <-end:
				return false
			}
		}
	}
	if forgotten(open(t, url, nil), 100*time.Millisecond) {
		t.Error("by default history is forgotten at once")
	}
	if !forgotten(open(t, url, &etcd.Options{CompactEvery: time.Millisecond}), 20*time.Second) {
		t.Error("history isn't forgotten")
	}
}
