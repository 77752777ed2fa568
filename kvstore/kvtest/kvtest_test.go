package kvtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestShared runs the suite on an engine that isn't exclusive.
func TestShared(t *testing.T) {
	kvtest.Run(t, kvtest.Config{
		Open: func(*testing.T) kvstore.Store {
			s := kvtest.Shared(kvstore.NewMemory())
			if _, ok := s.(kvstore.Exclusive); ok {
				t.Error("a shared store is exclusive")
			}
			return s
		},
	})
}
