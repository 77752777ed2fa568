package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore/bolt"
)

// locked makes sure that a file in use is refused in time, with an error that
// says which and why.
func locked(t *testing.T, path string) {
	t.Helper()
	for _, wait := range []time.Duration{-1, 200 * time.Millisecond} {
		start := time.Now()
		_, err := bolt.Open(path, &bolt.Options{LockTimeout: wait})
		if took := time.Since(start); took > wait+10*time.Second || took < wait-100*time.Millisecond {
			t.Errorf("LockTimeout %v took %v", wait, took)
		}
		if !errors.Is(err, bolt.ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open: %v, want ErrLocked with the path", err)
		}
	}
	var both sync.WaitGroup // at once, as each waits for two seconds
	for name, f := range map[string]func() error{
		"Check":   func() error { return bolt.Check(path) },
		"Compact": func() error { return bolt.Compact(path+".small", path) },
	} {
		both.Go(func() {
			if err := f(); !errors.Is(err, bolt.ErrLocked) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want ErrLocked with the path", name, err)
			}
		})
	}
	both.Wait()
}

func TestHeldByThisProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	locked(t, path)
	apply(t, s, put("a", "1")) // nobody harmed it
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestHeldByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	holder := start(t, "hold", path)
	if got := holder.line(); got != "holds 1" {
		t.Fatal(got)
	}
	locked(t, path)
	holder.kill() // a crash gives up the lock at once
	if s := open(t, path); s.Incarnation() != 2 {
		t.Errorf("incarnation %d after one crash", s.Incarnation())
	}
}

// TestWaitsForTheLock: a service that is replaced gives way within the timeout.
func TestWaitsForTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	old := open(t, path)
	opened := make(chan error)
	go func() {
		s, err := bolt.Open(path, &bolt.Options{LockTimeout: time.Minute})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// TestKilledAmidWrites: what was acknowledged before the crash is there after
// it, whole.
func TestKilledAmidWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	for round := range 3 {
		writer := start(t, "write", path)
		var acknowledged []string
		for range 100 * (round + 1) {
			acknowledged = append(acknowledged, writer.line())
		}
		acknowledged = append(acknowledged, writer.kill()...)
		if err := bolt.Check(path); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		there := all(t, s)
		for _, key := range acknowledged {
			if string(there[key].Value) != strings.Repeat(key, 50) {
				t.Errorf("%s was acknowledged, and is %q", key, there[key].Value)
			}
		}
		for key, e := range there {
			if string(e.Value) != strings.Repeat(key, 50) {
				t.Errorf("%s is %q", key, e.Value)
			}
		}
		if want := uint64(2*round + 2); s.Incarnation() != want {
			t.Errorf("incarnation %d, want %d", s.Incarnation(), want)
		}
		s.Close()
	}
}
