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
		s := open(t, path)
		paths[s] = path
		return s
	}
	kvtest.Run(t, kvtest.Config{
		Open: func(t *testing.T) kvstore.Store {
			path := filepath.Join(t.TempDir(), "store.db")
			t.Cleanup(func() { sound(t, path) }) // when open's own cleanup has closed it
			return at(t, path)
		},
		Reopen: func(t *testing.T, s kvstore.Store) kvstore.Store {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return at(t, paths[s])
		},
	})
}

var _ kvstore.Exclusive = (*bolt.Store)(nil)
