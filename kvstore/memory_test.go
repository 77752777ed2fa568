package kvstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	kvtest.Run(t, kvtest.Config{
		Open: func(*testing.T) kvstore.Store { return kvstore.NewMemory() },
		Reopen: func(_ *testing.T, s kvstore.Store) kvstore.Store {
			return s.(*kvstore.Memory).Reopen()
		},
	})
}
