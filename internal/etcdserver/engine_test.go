package etcdserver_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

// server is that of all tests that don't want one of their own.
var server *etcdserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "etcdserver")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if server, err = etcdserver.Start(etcdserver.Config{Dir: dir}); err != nil {
		panic(err)
	}
	defer server.Close()
	return m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var places atomic.Int64

// place returns the URL of a place that no other test has.
func place() string { return fmt.Sprintf("etcd://%s/test-%d", server.Addr(), places.Add(1)) }

func open(t *testing.T, url string, o *etcd.Options) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), url, o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func config(o *etcd.Options) kvtest.Config {
	urls := map[kvstore.Store]string{}
	at := func(t *testing.T, url string) kvstore.Store {
		s := open(t, url, o)
		urls[s] = url
		return s
	}
	return kvtest.Config{
		Open:   func(t *testing.T) kvstore.Store { return at(t, place()) },
		Reopen: func(t *testing.T, was kvstore.Store) kvstore.Store { return at(t, urls[was]) },
	}
}

func TestEngine(t *testing.T) { kvtest.Run(t, config(nil)) }

// The same while etcd forgets all the time what keys had before.
func TestEngineWhileHistoryIsCompacted(t *testing.T) {
	kvtest.Run(t, config(&etcd.Options{CompactEvery: 20 * time.Millisecond}))
}
