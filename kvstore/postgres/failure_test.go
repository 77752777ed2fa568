package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// own starts a server that the test may stop.
func own(t *testing.T) *postgrestest.Server {
	t.Helper()
	server, err := postgrestest.Start(nil)
	postgrestest.Need(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	return server
}

// The server is killed amid writes, and started again: what was acknowledged is
// there, what was certainly not applied isn't, and the store goes on as it is.
func TestServerThatIsKilled(t *testing.T) {
	t.Parallel()
	server := own(t)
	migrate(t, server, nil)
	s := open(t, server, nil)
	var mu sync.Mutex
	fates := map[string]error{}
	enough := make(chan struct{}, 1000)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("w%d-%d", w, i)
				_, err := s.Apply(context.Background(), put(key, "v"))
				mu.Lock()
				fates[key] = err
				mu.Unlock()
				if err != nil {
					return
				}
				enough <- struct{}{}
			}
		})
	}
	for range 100 {
		<-enough
	}
	go func() {
		for range enough { // so that the writers go on
		}
	}()
	must(t, server.Kill())
	all.Wait()
	close(enough)
	must(t, server.Restart())
	uncertain := 0
	for key, fate := range fates {
		_, err := s.Get(t.Context(), []byte(key))
		switch {
		case fate == nil && err != nil:
			t.Errorf("%s was acknowledged: %v", key, err)
		case errors.Is(fate, kvstore.ErrUncertain):
			uncertain++
		case fate != nil && !errors.Is(err, kvstore.ErrNotFound):
			t.Errorf("%s was certainly not applied (%v): %v", key, fate, err)
		}
	}
	t.Logf("%d writes, %d uncertain", len(fates), uncertain)
	_, err := s.Apply(t.Context(), put("after", "v"))
	must(t, err)
}

// beStandby makes a server a standby.
func beStandby(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	must(t, server.Stop())
	must(t, os.WriteFile(filepath.Join(server.Data(), "standby.signal"), nil, 0o644))
	must(t, server.Restart())
}

// A server that becomes a standby is refused, at opening and later: what it has
// may be old.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := own(t)
	migrate(t, server, nil)
	s := open(t, server, nil)
	_, err := s.Apply(t.Context(), put("a", "1"))
	must(t, err)
	beStandby(t, server)
	if _, err := s.Get(t.Context(), []byte("a")); !errors.Is(err, postgres.ErrStandby) {
		t.Errorf("Get: %v", err)
	}
	err = kvstore.ErrUncertain
	for errors.Is(err, kvstore.ErrUncertain) { // on a connection from before
		_, err = s.Apply(t.Context(), put("a", "2"))
	}
	if !errors.Is(err, postgres.ErrStandby) {
		t.Errorf("Apply: %v", err)
	}
	again, err := postgres.Open(t.Context(), server.URL(), nil)
	if err == nil {
		again.Close()
	}
	if !errors.Is(err, postgres.ErrStandby) {
		t.Errorf("Open: %v", err)
	}
}

// Keys that a user's transaction holds keep their own batches waiting, and no
// other, though they are more than there are connections, and one writer writes
// all.
func TestKeysThatAreHeld(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	s, err := postgres.Open(t.Context(), server.URL()+"&pool_max_conns=4",
		&postgres.Options{Schema: schema, Writers: 1})
	must(t, err)
	defer s.Close()
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		tx, err := c.Begin(ctx)
		must(t, err)
		var waiting, others sync.WaitGroup
		for i := range 8 {
			_, err = s.In(tx).Apply(ctx, put(fmt.Sprint("held", i), "1"))
			must(t, err)
			waiting.Go(func() {
				if _, err := s.Apply(ctx, put(fmt.Sprint("held", i), "2")); err != nil {
					t.Errorf("a key that was held: %v", err)
				}
			})
		}
		for i := range 50 {
			others.Go(func() {
				key := fmt.Sprint("other", i)
				if _, err := s.Apply(ctx, put(key, "1")); err != nil {
					t.Errorf("another key: %v", err)
				}
				if _, err := s.Get(ctx, []byte(key)); err != nil {
					t.Errorf("another key: %v", err)
				}
			})
		}
		others.Wait() // and then the transaction ends, before the waits do
		must(t, tx.Commit(ctx))
		waiting.Wait()
		return nil
	}))
	if e, err := s.Get(t.Context(), []byte("held7")); err != nil || string(e.Value) != "2" {
		t.Errorf("Get: %q, %v", e.Value, err)
	}
}

// The wait for a key that is held ends, for certain, also if no row is there yet.
func TestWaitsForKeysEnd(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	s := open(t, server, &postgres.Options{Schema: migrated(t, server),
		LockTimeout: 200 * time.Millisecond})
	_, err := s.Apply(t.Context(), put("row", "1"))
	must(t, err)
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		tx, err := c.Begin(ctx)
		must(t, err)
		for _, key := range []string{"row", "new"} {
			_, err = s.In(tx).Apply(ctx, put(key, "2"))
			must(t, err)
			_, err = s.Apply(ctx, put(key, "3"))
			if !errors.Is(err, postgres.ErrLocked) || errors.Is(err, kvstore.ErrUncertain) {
				t.Errorf("%s: %v", key, err)
			}
		}
		return tx.Commit(ctx)
	}))
	for _, key := range []string{"row", "new"} {
		if e, err := s.Get(t.Context(), []byte(key)); err != nil || string(e.Value) != "2" {
			t.Errorf("Get(%s): %q, %v", key, e.Value, err)
		}
	}
}

// Whatever the server's default is, a batch's transaction waits for the disk;
// what is stronger than that stays. The transaction's other settings are left
// alone.
func TestCommitsAreSynchronous(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	s := open(t, server, &postgres.Options{Schema: migrated(t, server)})
	for was, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply",
	} {
		must(t, withConn(server, func(ctx context.Context, c conn) error {
			tx, err := c.Begin(ctx)
			must(t, err)
			_, err = tx.Exec(ctx, "SET LOCAL synchronous_commit = "+was)
			must(t, err)
			_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '7s'")
			must(t, err)
			_, err = s.In(tx).Apply(ctx, put("a", was))
			must(t, err)
			var commit, lock string
			must(t, tx.QueryRow(ctx, "SELECT current_setting('synchronous_commit'), "+
				"current_setting('lock_timeout')").Scan(&commit, &lock))
			if commit != want || lock != "7s" {
				t.Errorf("synchronous_commit was %s, and is %s; lock_timeout is %s", was, commit, lock)
			}
			return tx.Rollback(ctx)
		}))
	}
}

// Who watches is woken when the listening connection is a new one: signals may
// have been lost.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	s := open(t, server, &postgres.Options{Schema: schema,
		Listen: server.URL() + "&application_name=" + schema})
	woken := make(chan struct{}, 1)
	defer s.Watch("work", func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})()
	<-woken // it listens
	sql(t, server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
		schema)
	<-woken
	s.Signal("work")
	<-woken
}

// A statement that the server cancels is certain; one whose connection it ends
// is not.
func TestWhatTheServerEnds(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	for how, uncertain := range map[string]bool{"pg_cancel_backend": false, "pg_terminate_backend": true} {
		t.Run(how, func(t *testing.T) {
			name := schema + how
			s, err := postgres.Open(t.Context(), server.URL()+"&application_name="+name,
				&postgres.Options{Schema: schema})
			must(t, err)
			defer s.Close()
			must(t, withConn(server, func(ctx context.Context, c conn) error {
				tx, err := c.Begin(ctx)
				must(t, err)
				_, err = s.In(tx).Apply(ctx, put(how, "1"))
				must(t, err)
				answered := make(chan error)
				go func() {
					_, err := s.Apply(ctx, put(how, "2"))
					answered <- err
				}()
				waits := "SELECT " + how + "(pid) FROM pg_stat_activity " +
					"WHERE application_name = $1 AND wait_event_type = 'Lock'"
				for {
					select {
					case err := <-answered:
						if err == nil || errors.Is(err, kvstore.ErrUncertain) != uncertain {
							t.Errorf("Apply: %v", err)
						}
						return tx.Commit(ctx)
					case <-time.After(10 * time.Millisecond):
						sql(t, server, waits, name)
					}
				}
			}))
		})
	}
}
