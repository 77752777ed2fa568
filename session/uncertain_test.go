package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/session"
)

// Whoever loses a commit's acknowledgement, and can't find out any more, is told that it may have been applied.
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
				must(t, s.Update(t.Context(), "s", func(tx *session.Tx) error { tx.Stop(event.FinishInterrupted, fmt.Sprint(i)); return nil }))
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			kv := faultkv.New(kvstore.NewMemory())
			s := session.NewStore(kv.Store, nil)
			d, err := s.Drive(t.Context(), "s", &session.New{User: "ada"})
			must(t, err)
			must(t, d.Update(t.Context()))
			d.Release()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			kv.Add(faultkv.LoseAt(kv.Applies() + 1))
			kv.After(func(faultkv.Call) { c.end(kv, cancel) })
			err = s.Update(ctx, "s", func(tx *session.Tx) error { tx.Stop(event.FinishFailed, ""); return nil })
			if errors.Is(err, kvstore.ErrUncertain) != c.uncertain || (err == nil) == c.uncertain {
				t.Errorf("it is told %v", err)
			}
		})
	}
}
