package session_test

import (
	"context"
	"testing"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// panics is an engine that panics.
type panics struct{ kvstore.Store }

func (panics) Get(context.Context, []byte) (kvstore.Entry, error) { panic("in the engine") }

// A panic of an engine is its caller's, although it happens in another
// goroutine.
func TestEnginePanics(t *testing.T) {
	defer func() {
		if p := recover(); p != "in the engine" {
			t.Errorf("recovered %v", p)
		}
	}()
	_, _ = session.NewStore(panics{kvstore.NewMemory()}, nil).Load(t.Context(), "s")
}
