package etcdserver_test

import (
	"fmt"
	"os"
	"sync"
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

func TestMain(m *testing.M) {
	if was, err := etcdserver.BeMember(); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	} else if was {
		return
	}
	os.Exit(run(m))
}

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

func config() kvtest.Config {
	urls := map[kvstore.Store]string{}
	at := func(t *testing.T, url string) kvstore.Store {
		s := open(t, url, nil)
		urls[s] = url
		return s
	}
	return kvtest.Config{
		Open:   func(t *testing.T) kvstore.Store { return at(t, place()) },
		Reopen: func(t *testing.T, was kvstore.Store) kvstore.Store { return at(t, urls[was]) },
	}
}

func TestEngine(t *testing.T) { kvtest.Run(t, config()) }

// A page is of one moment, and no key is left out, also while etcd forgets all
// the time what keys had before.
func TestPagesWhileHistoryIsCompacted(t *testing.T) {
	s := open(t, place(), &etcd.Options{CompactEvery: time.Millisecond})
	const between = 40
	apply := func(puts ...kvstore.Put) {
		_, err := s.Apply(t.Context(), kvstore.Batch{Puts: puts})
		must(t, err)
	}
	put := func(key string, value int) kvstore.Put {
		return kvstore.Put{Key: []byte(key), Value: fmt.Append(nil, value)}
	}
	for i := range between {
		apply(put(fmt.Sprintf("m%02d", i), i))
	}
	whole, states := 0, map[string]bool{}
	for i := 0; i < 30 || whole == 0 || len(states) < 2; i++ {
		var writer sync.WaitGroup
		writer.Go(func() { apply(put("a", i), put("z", i)) })
		var all []kvstore.Entry
		for more := true; more; {
			r := kvstore.Range{}
			if len(all) > 0 {
				r.After = all[len(all)-1].Key
			}
			p, err := s.Scan(t.Context(), r)
			must(t, err)
			if n := len(p.Entries); n == between+2 {
				whole++
				a, z := string(p.Entries[0].Value), string(p.Entries[n-1].Value)
				if states[a] = true; a != z {
					t.Fatalf("one page has a = %s and z = %s", a, z)
				}
			}
			all, more = append(all, p.Entries...), p.More
		}
		stable := 0
		for _, e := range all {
			if e.Key[0] == 'm' {
				stable++
			}
		}
		if stable != between {
			t.Fatalf("%d of %d keys are seen", stable, between)
		}
		writer.Wait()
	}
}
