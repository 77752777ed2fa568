package etcdserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
)

// Stores with different prefixes share a cluster and nothing else, also where
// one prefix begins another.
func TestPrefixes(t *testing.T) {
	url := start(t, etcdserver.Config{})
	stores := []*etcd.Store{open(t, url, nil), open(t, url+"/fermat", nil), open(t, url+"/fermata%2Fx", nil)}
	for i, s := range stores {
		_, err := s.Apply(t.Context(), puts("a", []byte{byte(i)}))
		must(t, err)
	}
	for i, s := range stores {
		p, err := s.Scan(t.Context(), kvstore.Range{})
		must(t, err)
		if len(p.Entries) != 1 || p.Entries[0].Value[0] != byte(i) {
			t.Errorf("store %d has %+v", i, p.Entries)
		}
	}
	if e, err := open(t, url+"/other", &etcd.Options{Prefix: "fermata"}).Get(t.Context(), []byte("a")); err != nil || e.Value[0] != 0 {
		t.Errorf("the default prefix: %+v, %v", e, err)
	}
}

// A URL that is malformed is refused, and the error doesn't have its password.
func TestMalformedURLs(t *testing.T) {
	for _, url := range []string{
		"", "http://one:2379", "etcd://", "etcd:///agents", "etcd://ada:secret@one:2379,/agents",
		"etcd://ada:secret@one:2379/agents%zz", "etcd://ada:secret%zz@one", "etcd://ada:secret@one?tls=no",
		"etcd://ada:secret@one?tls=true&more=1", "etcd://ada:secret@one/" + strings.Repeat("p", 65),
	} {
		if strings.Contains(url, "ppp") { // it is refused once it is parsed
			url = "etcd://" + server.Addr() + "/" + strings.Repeat("p", 65)
		}
		s, err := etcd.Open(t.Context(), url, nil)
		if err == nil {
			s.Close()
			t.Errorf("%s is accepted", url)
		} else if !strings.HasPrefix(err.Error(), "etcd: the ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A write to a cluster that doesn't answer is uncertain, and a read fails.
func TestClusterThatIsGone(t *testing.T) {
	own, err := etcdserver.Start(etcdserver.Config{Dir: t.TempDir()})
	must(t, err)
	defer own.Close()
	s := open(t, "etcd://"+own.Addr(), nil)
	_, err = s.Apply(t.Context(), puts("a", nil))
	must(t, err)
	own.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Apply(ctx, puts("a", nil)); !errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := s.Get(ctx, []byte("a")); err == nil || errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if _, err := etcd.Open(ctx, "etcd://"+own.Addr(), nil); err == nil {
		t.Error("it is opened")
	}
}
