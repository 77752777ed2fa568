package etcdserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore"
)

// A cluster of three goes on without its leader, and with a member that is cut
// off, and both come back. Alone, a member takes nothing.
func TestClusterGoesOnWithoutOne(t *testing.T) {
	c, err := etcdserver.StartCluster(t.TempDir(), 3)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	s := open(t, "etcd://"+strings.Join(c.Addrs(), ","), nil)
	put := func(s kvstore.Store, key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := s.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte("v")}}})
		return err
	}
	until := func(key string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; {
			err := put(s, key)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	leads := func() int {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			n, err := c.Leader()
			must(t, err)
			if n >= 0 {
				return n
			}
		}
		t.Fatal("no member leads")
		return 0
	}
	until("first")

	leader := leads()
	must(t, c.Kill(leader))
	until("without its leader")
	must(t, c.Start(leader))

	off := (leads() + 1) % 3
	alone := open(t, "etcd://"+c.Addrs()[off], nil)
	must(t, c.CutOff(off))
	if put(alone, "alone") == nil {
		t.Error("a member that is cut off takes a write")
	}
	until("without one that is cut off")
	must(t, c.Mend(off))
	until("all are there")
	for _, key := range []string{"first", "without its leader", "without one that is cut off"} {
		if _, err := s.Get(t.Context(), []byte(key)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
