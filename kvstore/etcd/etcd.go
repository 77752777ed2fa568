// Package etcd is the engine on an [etcd] cluster, for several processes that
// share their sessions and have such a cluster anyway. It is a module of its
// own.
//
//	kv, err := etcd.Open(ctx, "etcd://one:2379,two:2379,three:2379/agents", nil)
//	if err != nil {
//		return err
//	}
//	defer kv.Close()
//	store := session.NewStore(kv, nil)
//
// A batch is one transaction of etcd, and a revision is its mod_revision. The
// time of deadlines is the cluster's: its leader counts it, by a lease.
//
// It isn't for much data: etcd keeps all keys in memory, takes 2 GiB by
// default and recommends no more than 8, and each write goes to the disks of
// most members. A few thousand sessions that are kept for weeks are well; for
// more, take PostgreSQL.
//
// A cluster that is restored from a snapshot would give out revisions again
// that were given out before, and a stale precondition could hold. Restore it
// with etcdutl's --bump-revision and --mark-compacted, and with a bump that is
// larger than the number of writes since the snapshot.
//
// [etcd]: https://etcd.io
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermata-ai/fermata/kvstore"
)

// Options are for [Open] and [New]; nil means the defaults.
type Options struct {
	// Prefix begins all keys of this store, so that others may share the
	// cluster; default "fermata". It has no NUL and at most 64 bytes. Stores
	// with the same prefix are the same store.
	Prefix string
	// CompactEvery is how often this process has etcd forget the values that
	// keys had before, which otherwise fill its disk; default 5 min. What is
	// younger than that is kept. It concerns all keys of the cluster, those of
	// others, too. Negative: something else does it, such as etcd's own
	// --auto-compaction-retention.
	CompactEvery time.Duration
	// Logger gets what no caller is told: that the clock can't be asked, or
	// signals can't be heard. Default slog.Default.
	Logger *slog.Logger
}

// What follows the prefix in the keys of a store.
const (
	entriesKey = "\x00" // and the entry's key
	signalsKey = "\x01"
	clockKey   = "\x02"
)

const (
	defaultPrefix       = "fermata"
	maxPrefix           = 64
	defaultCompactEvery = 5 * time.Minute
)

// Store is a store in an etcd cluster. Any goroutine may use it.
type Store struct {
	client  *clientv3.Client
	owned   bool   // the client is this Store's to close
	data    string // what the keys of entries begin with
	signals *signals
	clock   *clock
	every   time.Duration
	log     *slog.Logger
	seen    atomic.Int64 // the newest revision of etcd that an answer had

	background sync.WaitGroup
	stop       context.CancelFunc // ends what runs in the background
	calls      sync.WaitGroup     // under way
	mu         sync.Mutex         // guards closed; held over no call
	closed     bool
}

var (
	_ kvstore.Signaler = (*Store)(nil)
	_ kvstore.Clock    = (*Store)(nil)
)

// New returns the store on a cluster that client reaches, which remains the
// caller's to close. A server that is set to take less than every engine must
// is refused: --max-txn-ops and --max-request-bytes are no lower than their
// defaults. A cluster that doesn't answer within 10 s is an error.
func New(ctx context.Context, client *clientv3.Client, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	prefix, every := o.Prefix, o.CompactEvery
	if prefix == "" {
		prefix = defaultPrefix
	}
	if every == 0 {
		every = defaultCompactEvery
	}
	if len(prefix) > maxPrefix || strings.ContainsRune(prefix, 0) {
		return nil, fmt.Errorf("etcd: the prefix %.80q: it has at most %d bytes, and no NUL",
			prefix, maxPrefix)
	}
	s := &Store{client: client, data: prefix + entriesKey, every: every, log: o.Logger}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.clock = newClock(s, prefix+clockKey)
	if err := s.probe(ctx); err != nil {
		return nil, err
	}
	s.clock.ask(ctx)
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.signals = newSignals(client, prefix+signalsKey, s.log)
	s.background.Go(func() { s.signals.listen(background) })
	s.background.Go(func() { s.clock.run(background) })
	if every > 0 {
		s.background.Go(func() { s.compact(background) })
	}
	return s, nil
}

// Signal implements [kvstore.Signaler].
func (s *Store) Signal(topic string) { s.signals.out.Signal(topic) }

// Watch implements [kvstore.Signaler].
func (s *Store) Watch(topic string, wake func()) (stop func()) {
	return s.signals.out.Watch(topic, wake)
}

// Now implements [kvstore.Clock]: the cluster's time, which its leader counts by
// a lease.
func (s *Store) Now() (t time.Time, within time.Duration) { return s.clock.time.Now() }

// Close implements [kvstore.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	s.signals.out.Close()
	s.stop()
	s.background.Wait()
	if was || !s.owned {
		return nil
	}
	if err := s.client.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// begin begins a call, which ends with s.calls.Done unless there is an error.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return kvstore.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.calls.Add(1)
	return nil
}

// saw notes the revision of an answer, and its term.
func (s *Store) saw(header *etcdserverpb.ResponseHeader) {
	s.clock.saw(header.RaftTerm)
	for revision := header.Revision; ; {
		was := s.seen.Load()
		if revision <= was || s.seen.CompareAndSwap(was, revision) {
			return
		}
	}
}
