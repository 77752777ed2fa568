package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

func TestBolt(t *testing.T) {
	paths := map[kvstore.Store]string{}
	at := func(t *testing.T, path string) kvstore.Store {
		t.Helper()
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		paths[s] = path
		return s
	}
	kvtest.Run(t, kvtest.Config{
		Open:   func(t *testing.T) kvstore.Store { return at(t, filepath.Join(t.TempDir(), "store.db")) },
		Reopen: func(t *testing.T, s kvstore.Store) kvstore.Store { return at(t, paths[s]) },
	})
}
