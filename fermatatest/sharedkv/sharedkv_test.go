package sharedkv_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T) *sharedkv.Server {
	t.Helper()
	s, err := sharedkv.Listen(kvstore.NewMemory())
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func open(t *testing.T, s *sharedkv.Server, o *sharedkv.Options) *sharedkv.Client {
	t.Helper()
	c := sharedkv.Open(s.Addr(), o)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

var one = kvstore.Batch{Puts: []kvstore.Put{{Key: []byte("a"), Value: []byte("1")}}}

func TestEngine(t *testing.T) {
	servers := map[kvstore.Store]*sharedkv.Server{}
	client := func(t *testing.T, s *sharedkv.Server) kvstore.Store {
		c := kvstore.Store(open(t, s, nil))
		if _, ok := c.(kvstore.Exclusive); ok {
			t.Error("a client is exclusive")
		}
		servers[c] = s
		return c
	}
	kvtest.Run(t, kvtest.Config{
		Open: func(t *testing.T) kvstore.Store { return client(t, listen(t)) },
		Reopen: func(t *testing.T, was kvstore.Store) kvstore.Store {
			return client(t, servers[was])
		},
	})
}

// The same with what engines may offer beside a store.
func TestEngineWithSignals(t *testing.T) {
	servers := map[kvstore.Store]*sharedkv.Server{}
	client := func(t *testing.T, s *sharedkv.Server) kvstore.Store {
		c := sharedkv.OpenSignals(t.Context(), s.Addr(), nil)
		t.Cleanup(func() { must(t, c.Close()) })
		servers[c] = s
		return c
	}
	kvtest.Run(t, kvtest.Config{
		Open: func(t *testing.T) kvstore.Store {
			s := listen(t)
			s.SetClock(-time.Hour)
			return client(t, s)
		},
		Reopen: func(t *testing.T, was kvstore.Store) kvstore.Store {
			return client(t, servers[was])
		},
	})
}

// The same, while answers come late and requests overtake each other.
func TestEngineWithDelays(t *testing.T) {
	kvtest.Run(t, kvtest.Config{Open: func(t *testing.T) kvstore.Store {
		s := listen(t)
		s.SetFaults("",
			sharedkv.Faults{Delay: 500 * time.Microsecond, Late: .1, LateBy: time.Millisecond})
		return open(t, s, nil)
	}})
}

func TestWhatOneClientWritesAnotherReads(t *testing.T) {
	s := listen(t)
	a, b := open(t, s, nil), open(t, s, nil)
	rev, err := a.Apply(t.Context(), one)
	must(t, err)
	e, err := b.Get(t.Context(), []byte("a"))
	if err != nil || string(e.Value) != "1" || e.Revision != rev {
		t.Errorf("%+v, %v", e, err)
	}
	if again, err := b.Apply(t.Context(), one); err != nil || again <= rev {
		t.Errorf("revision %d after %d, %v", again, rev, err)
	}
}

// A call whose answer never comes ends with its caller's context, and isn't
// known to have failed.
func TestALostAnswerIsUncertain(t *testing.T) {
	s := listen(t)
	c := open(t, s, &sharedkv.Options{Name: "x"})
	s.SetFaults("x", sharedkv.Faults{Lose: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Apply(ctx, one)
	if !errors.Is(err, kvstore.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Apply: %v", err)
	}
	if e, err := c.Get(t.Context(), []byte("a")); err != nil || string(e.Value) != "1" {
		t.Errorf("it was not applied: %+v, %v", e, err)
	}
	if n := s.Counts(); n.Lost != 1 || n.Sum() != 1 {
		t.Errorf("%+v", n)
	}
}

func TestAConnectionThatBreaksIsUncertainAndMadeAnew(t *testing.T) {
	s := listen(t)
	c := open(t, s, &sharedkv.Options{Name: "x"})
	s.SetFaults("x", sharedkv.Faults{Cut: 1})
	applied := 0
	for range 20 {
		if _, err := c.Apply(t.Context(), one); !errors.Is(err, kvstore.ErrUncertain) {
			t.Fatalf("Apply: %v", err)
		}
		for { // a read may meet the connection before it is known to be broken
			_, err := c.Get(t.Context(), []byte("a"))
			if err == nil {
				applied++
				must(t, clear(t, s))
			} else if !errors.Is(err, kvstore.ErrNotFound) {
				continue
			}
			break
		}
	}
	if applied == 0 || applied == 20 {
		t.Errorf("%d of 20 batches whose connection broke were applied", applied)
	}
}

// clear removes the key, through a client that nothing happens to.
func clear(t *testing.T, s *sharedkv.Server) error {
	c := open(t, s, &sharedkv.Options{Name: "sound"})
	s.SetFaults("sound", sharedkv.Faults{})
	_, err := c.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{[]byte("a")}})
	return err
}

func TestAStallKeepsOneClientWaiting(t *testing.T) {
	s := listen(t)
	stalled, other := open(t, s, &sharedkv.Options{Name: "x"}),
		open(t, s, &sharedkv.Options{Name: "y"})
	const stall = 100 * time.Millisecond
	begun := time.Now()
	s.Stall("x", stall)
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := stalled.Apply(t.Context(), one); err != nil || time.Since(begun) < stall {
			t.Errorf("the stalled client was answered after %v, %v", time.Since(begun), err)
		}
	})
	if _, err := other.Get(t.Context(), []byte("b")); !errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	both.Wait()
	s.Stall("x", time.Hour)
	s.Heal()
	_, err := stalled.Apply(t.Context(), one)
	must(t, err)
}

// A deaf client doesn't heed its context, but the end of its connection, and
// its own.
func TestADeafClientWaitsForItsConnection(t *testing.T) {
	for name, end := range map[string]func(*sharedkv.Server, *sharedkv.Client) error{
		"its connection breaks": func(s *sharedkv.Server, _ *sharedkv.Client) error { s.Cut("x"); return nil },
		"it is closed":          func(_ *sharedkv.Server, c *sharedkv.Client) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t)
			c := open(t, s, &sharedkv.Options{Name: "x", Deaf: true})
			_, err := c.Apply(t.Context(), one)
			must(t, err)
			s.SetFaults("x", sharedkv.Faults{Lose: 1})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				for s.Counts().Lost == 0 {
					time.Sleep(time.Millisecond)
				}
				<-ctx.Done()
				ended <- end(s, c)
			}()
			_, err = c.Apply(ctx, one)
			if !errors.Is(err, kvstore.ErrUncertain) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Apply: %v", err)
			}
			must(t, <-ended)
		})
	}
}

// A server that is gone is an error that is certain.
func TestWithoutAServerNothingIsApplied(t *testing.T) {
	s := listen(t)
	c := open(t, s, nil)
	must(t, s.Close())
	if _, err := c.Apply(t.Context(), one); err == nil || errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply: %v", err)
	}
}
