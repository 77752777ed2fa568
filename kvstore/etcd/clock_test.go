package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// runs has the clock ask, until the test ends.
func runs(t *testing.T, c *clock) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
}

// In a new term, a process that doesn't know the time leaves it to others to
// carry it on, for longer than those that know it take. Then it takes its
// machine's.
func TestClockIsBegunAnewAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begun(t, 7)
		c := f.clock(nil)
		runs(t, c)
		time.Sleep(patience*askSoon + askSoon/2)
		synctest.Wait()
		if now, _, known := c.now(); known || f.last.Load() != 0 || patience*askSoon < 2*askEvery {
			t.Fatalf("it doesn't wait for others: %v, %d leases", now, f.last.Load())
		}
		time.Sleep(askSoon)
		synctest.Wait()
		now, _, known := c.now()
		if !known || time.Since(now).Abs() > sharp {
			t.Errorf("Now is %v, known %v", now, known)
		}
		if _, old := f.leases[1000]; old || len(f.leases) != 1 {
			t.Errorf("there are the leases %v", f.leases)
		}
	})
}

// If the cluster's clock can't be asked, answers of the store have it asked once
// for their term. Then it is asked now and then, and the log has one line.
func TestClockThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begun(t, 7)
		f.down = errFake
		var log bytes.Buffer
		c := f.clock(&log)
		runs(t, c)
		for range 100 {
			c.saw(7)
			synctest.Wait()
		}
		if n := f.gets.Load(); n != 1 {
			t.Errorf("100 answers of a term have it asked %d times", n)
		}
		time.Sleep(10*askSoon + askSoon/2)
		synctest.Wait()
		n := f.gets.Load()
		if lines := strings.Count(log.String(), "\n"); n != 11 || lines != 1 {
			t.Errorf("after a while it was asked %d times; the log has %s", n, &log)
		}
	})
}

// A lease whose entry could not be stored is revoked, at once or the next time,
// unless the entry is stored after all.
func TestLeasesThatAreNotStored(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		stores bool
		then   int // how many leases are left, with the one of before
	}{
		"refused":               {rpctypes.ErrPermissionDenied, false, 1},
		"uncertain":             {errFake, false, 2},
		"uncertain, and stored": {errFake, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begun(t, 7)
				f.refused, f.stores = test.err, test.stores
				c := f.clock(nil)
				c.stale = patience
				if err := c.tryAsk(t.Context()); !errors.Is(err, test.err) || len(f.leases) != test.then {
					t.Errorf("it is told %v, and %v are left", err, f.leases)
				}
				f.noRevoke = errFake
				_ = c.tryAsk(t.Context())
				_ = c.tryAsk(t.Context())
				if len(f.leases) > 3 {
					t.Errorf("while none can be revoked, %v are granted", f.leases)
				}
				f.noRevoke, f.refused = nil, nil
				for range 3 {
					must(t, c.tryAsk(t.Context()))
				}
				var e epoch
				must(t, json.Unmarshal(f.value, &e))
				delete(f.leases, 1000) // which stays if the answer was lost
				if _, there := f.leases[e.Lease]; !there || len(f.leases) != 1 || c.known != e {
					t.Errorf("there are the leases %v; stored is %+v", f.leases, e)
				}
			})
		})
	}
}

// A watch that fails is logged, once until one is made.
func TestWatchesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := clientv3.WatchResponse{Canceled: true, CompactRevision: 1}
		f := begun(t, 7)
		f.watches = []clientv3.WatchResponse{fails, fails, {Created: true}, fails}
		var log bytes.Buffer
		s := newSignals(&clientv3.Client{Watcher: f}, "fermata"+signalsKey,
			slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.listen(ctx); close(done) }()
		time.Sleep(10 * listenWait)
		stop()
		<-done
		s.out.Close()
		if lines := strings.Count(log.String(), "\n"); lines != 2 {
			t.Errorf("the log has %s", &log)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
