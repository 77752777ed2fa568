package etcdserver_test

import (
	"context"
	"errors"
	"net"
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
		"etcd://ada:secret@one:1?tls=true&more=1", "etcd://ada:secret%zz/x@one:1/p", "etcd://ada:secret",
		"etcd://ada:secret:1", "etcd://secret%zz:1", "etcd://ada:secret/p", "etcd://[::1:secret", "etcd://secret #:1", "etcd://ada:secret@one/" + strings.Repeat("p", 65),
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

// What a password may have in it is no error's: the host is what follows the
// last @.
func TestPasswordsThatArentEscaped(t *testing.T) {
	for _, password := range []string{"secret/x", "secret?x", "secret#x", "secret@x", "secret \x7f/"} {
		s, err := etcd.Open(t.Context(), "etcd://ada:"+password+"@"+server.Addr()+"/pw", nil)
		if err == nil {
			s.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", password, err)
		}
	}
}

// A cluster that doesn't answer is an error after a while.
func TestOpenWaitsForNoAnswer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	opened := make(chan error, 1)
	go func() {
		_, err := etcd.Open(context.Background(), "etcd://"+silent.Addr().String(), nil)
		opened <- err
	}()
	select {
	case err = <-opened:
	case <-time.After(time.Minute):
		t.Fatal("it still waits after a minute")
	}
	if err == nil || !strings.Contains(err.Error(), "hasn't answered") {
		t.Errorf("it is opened: %v", err)
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
