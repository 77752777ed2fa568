package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// A caller loses a commit's acknowledgement, and can't find out any more: it is
// told that the commit may have been applied.
func TestErrorsSayWhatMayHaveHappened(t *testing.T) {
	for name, c := range map[string]struct {
		end       func(kv *faultkv.Injector, cancel func()) // after the first try
		uncertain bool
	}{
		"the caller leaves":       {func(_ *faultkv.Injector, cancel func()) { cancel() }, true},
		"the store can't be read": {func(kv *faultkv.Injector, _ func()) { kv.Kill() }, true},
		"it finds out":            {func(*faultkv.Injector, func()) {}, false},
		"many others commit": {func(kv *faultkv.Injector, _ func()) {
			kv.After(nil)
			s := session.NewStore(kv.Store, nil)
			for i := range 20 {
				must(t, s.Update(t.Context(), "s", func(tx *session.Tx) error {
					tx.Stop(event.FinishInterrupted, fmt.Sprint(i))
					return nil
				}))
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			kv := faultkv.New(kvstore.NewMemory())
			s := session.NewStore(kv.Store, nil)
			d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
			must(t, err)
			must(t, d.Update(t.Context()))
			d.Release()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			kv.Add(faultkv.LoseAt(kv.Applies() + 1))
			kv.After(func(faultkv.Call) { c.end(kv, cancel) })
			err = s.Update(ctx, "s", func(tx *session.Tx) error {
				tx.Stop(event.FinishFailed, "")
				return nil
			})
			if errors.Is(err, kvstore.ErrUncertain) != c.uncertain || (err == nil) == c.uncertain {
				t.Errorf("it is told %v", err)
			}
		})
	}
}

// A head that outgrows a value is written aside first. If the engine never tells
// what became of that, the update begins anew: nothing was sent yet.
func TestAcknowledgementsOfAHeadAsideAreLost(t *testing.T) {
	kv := faultkv.New(kvstore.NewMemory())
	s := begun(t, kv.Store)
	for i := range 4 {
		kv.Add(faultkv.LoseAt(kv.Applies() + 1 + i))
	}
	must(t, s.Update(t.Context(), "s", grow(100<<10)))
	if kv.Struck() != 4 {
		t.Fatalf("%d acknowledgements were lost", kv.Struck())
	}
	st, err := s.Load(t.Context(), "s")
	must(t, err)
	if n := len(haltOf(st)); n != 100<<10 {
		t.Errorf("what was accepted has %d bytes", n)
	}
}

// TestWhatIsNeverCertain: an engine never tells what became of a schema or a
// key, and doesn't take it. The caller hears of it after a few tries. One that
// was taken all the same is found.
func TestWhatIsNeverCertain(t *testing.T) {
	for name, put := range map[string]func(*session.Store) error{
		"a schema": func(s *session.Store) error {
			_, err := s.PutSchema(t.Context(), []byte(`{"type":"string"}`))
			return err
		},
		"a key": func(s *session.Store) error {
			_, err := s.RotateTokenKeys(t.Context(), time.Time{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			kv := &neverCertain{Store: kvstore.NewMemory()}
			s := session.NewStore(kv, nil)
			if err := put(s); !errors.Is(err, kvstore.ErrUncertain) || kv.tries < 2 ||
				kv.tries > 10 {
				t.Errorf("after %d tries: %v", kv.tries, err)
			}
			kv.takes, kv.tries = true, 0
			if err := put(s); err != nil || kv.tries != 1 {
				t.Errorf("after %d tries: %v", kv.tries, err)
			}
		})
	}
}

// neverCertain is an engine whose acknowledgements all get lost.
type neverCertain struct {
	kvstore.Store
	takes bool
	tries int
}

func (n *neverCertain) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	n.tries++
	if n.takes {
		if rev, err := n.Store.Apply(ctx, b); err != nil {
			return rev, err
		}
	}
	return 0, kvstore.ErrUncertain
}
