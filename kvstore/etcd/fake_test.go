package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The tests of this package are those that need a time of their own, or failures
// at will. Those with a server are in internal/etcdserver.

// fake is what the clock and the signals have of a cluster. One goroutine uses
// it at a time; any may look at what is atomic.
type fake struct {
	clientv3.KV
	clientv3.Lease
	clientv3.Watcher

	term   uint64
	gets   atomic.Int64
	value  []byte // the clock's; nil: none
	at     int64
	leases map[int64]time.Time // when they were granted
	last   atomic.Int64

	down     error // Get fails
	refused  error // Txn fails, and
	stores   bool  // was applied
	noRevoke error
	watches  []clientv3.WatchResponse // each is a watch of its own; then one that lasts
}

// begun returns a cluster of a term with the entry of the one before it.
func begun(t *testing.T, term uint64) *fake {
	t.Helper()
	f := &fake{term: term, at: 1, leases: map[int64]time.Time{}}
	value, err := json.Marshal(epoch{Version: epochVersion, Term: term - 1, Lease: 1000,
		Begun: time.Now().UTC().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	f.value = value
	f.leases[1000] = time.Now().Add(-time.Hour)
	return f
}

func (f *fake) clock(log *bytes.Buffer) *clock {
	s := &Store{
		client: &clientv3.Client{KV: f, Lease: f}, log: slog.New(slog.DiscardHandler),
	}
	if log != nil {
		s.log = slog.New(slog.NewTextHandler(log, nil))
	}
	return newClock(s, "fermata"+clockKey)
}

func (f *fake) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{RaftTerm: f.term}
}

func (f *fake) Close() error { return nil }

func (f *fake) Get(
	context.Context, string, ...clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	f.gets.Add(1)
	if f.down != nil {
		return nil, f.down
	}
	r := &clientv3.GetResponse{Header: f.header()}
	if f.value != nil {
		r.Kvs = []*mvccpb.KeyValue{{Value: f.value, ModRevision: f.at}}
	}
	return r, nil
}

func (f *fake) TimeToLive(
	_ context.Context, id clientv3.LeaseID, _ ...clientv3.LeaseOption,
) (*clientv3.LeaseTimeToLiveResponse, error) {
	r := &clientv3.LeaseTimeToLiveResponse{TTL: -1}
	if granted, ok := f.leases[int64(id)]; ok {
		r.GrantedTTL = leaseLength
		r.TTL = leaseLength - int64(time.Since(granted)/time.Second)
	}
	return r, nil
}

func (f *fake) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	id := f.last.Add(1)
	f.leases[id] = time.Now()
	return &clientv3.LeaseGrantResponse{ResponseHeader: f.header(), ID: clientv3.LeaseID(id)}, nil
}

func (f *fake) Revoke(
	_ context.Context, id clientv3.LeaseID,
) (*clientv3.LeaseRevokeResponse, error) {
	if f.noRevoke == nil {
		delete(f.leases, int64(id))
	}
	return &clientv3.LeaseRevokeResponse{}, f.noRevoke
}

func (f *fake) Txn(context.Context) clientv3.Txn { return &fakeTxn{f: f} }

type fakeTxn struct {
	f   *fake
	put []byte
}

func (x *fakeTxn) If(...clientv3.Cmp) clientv3.Txn  { return x }
func (x *fakeTxn) Else(...clientv3.Op) clientv3.Txn { return x }

func (x *fakeTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	x.put = ops[0].ValueBytes()
	return x
}

func (x *fakeTxn) Commit() (*clientv3.TxnResponse, error) {
	if x.f.refused == nil || x.f.stores {
		x.f.value, x.f.at = x.put, x.f.at+1
	}
	if x.f.refused != nil {
		return nil, x.f.refused
	}
	return &clientv3.TxnResponse{Header: x.f.header(), Succeeded: true}, nil
}

func (f *fake) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	answers := make(chan clientv3.WatchResponse, 1)
	if len(f.watches) > 0 {
		answers <- f.watches[0]
		f.watches = f.watches[1:]
		close(answers)
		return answers
	}
	context.AfterFunc(ctx, func() { close(answers) })
	return answers
}

var errFake = errors.New("the cluster is away")
