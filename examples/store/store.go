// Package store opens the store that the flag -store of an example names, so that
// each example runs on each engine:
//
//	go run ./examples/approval -store bolt://approval.db
//	go run ./examples/approval -store postgres://ada:secret@localhost/agents
//	go run ./examples/approval -store etcd://localhost:2379
//
// A program of yours needs nothing of this: it imports one engine, and opens that
// in one line, as docs/engines.md shows.
//
// PostgreSQL and etcd are modules of their own, and the examples depend on neither,
// so that the first one is compiled in a moment. A process of the module that has
// both (examples/cluster/serve) opens such a store, and the example reaches it
// through that process. It is compiled when it is first wanted, which takes a
// minute.
package store

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/session"
)

var named = flag.String("store", "",
	"the `URL` of the store: bolt://file, postgres://… or etcd://…; the example's own without it")

// What processes that an example starts take over from it.
const (
	urlVariable   = "FERMATA_EXAMPLE_STORE"
	placeVariable = "FERMATA_EXAMPLE_PLACE"
)

// Open opens the store that -store names. Without it, that is a file, or the
// memory where no file is given. In PostgreSQL and etcd each run of an example
// has a place of its own, so it begins with an empty store. Open parses the flags
// if the example hasn't.
func Open(file string) (kvstore.Store, error) {
	return Place{URL: Share(), Name: os.Getenv(placeVariable), File: file}.Open()
}

// Place is where a store is.
type Place struct {
	URL  string // of the engine; empty: a file's, or the memory
	Name string // a schema in PostgreSQL, a prefix in etcd
	File string // where there is no URL; empty: the memory
}

// Open opens the store.
func (p Place) Open() (kvstore.Store, error) {
	scheme, rest, _ := strings.Cut(p.URL, "://")
	switch scheme {
	case "":
		if p.File == "" {
			return kvstore.NewMemory(), nil
		}
		return bolt.Open(p.File, nil)
	case "bolt":
		return bolt.Open(rest, nil)
	case "postgres", "postgresql", "etcd":
		return serve(p.URL, p.Name)
	}
	return nil, fmt.Errorf("store: the URL begins with %q: known are bolt, postgres and etcd", scheme)
}

// Share has processes that this one starts from here open the same store, in the
// same place, and returns its URL. For an example that leaves the work to those.
func Share() (url string) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if url = *named; url == "" {
		url = os.Getenv(urlVariable)
	}
	if os.Getenv(placeVariable) == "" {
		os.Setenv(placeVariable, "example_"+strings.ToLower(rand.Text()[:12]))
	}
	os.Setenv(urlVariable, url)
	return url
}

// lease is how long a drive holds a session in an example whose processes die.
const lease = 2 * time.Second

// Options are for an example whose processes die, so that it takes no half minute
// to see that one has. All have one machine's clock.
func Options() *session.Options {
	return &session.Options{Lease: lease, MaxSkew: 100 * time.Millisecond}
}

// WaitForLease waits until a process that died holds no session any more. On an
// engine of one process none does, so there it returns at once.
func WaitForLease() {
	if url := Share(); url != "" && !strings.HasPrefix(url, "bolt:") {
		time.Sleep(lease + lease/2)
	}
}

// served is a store as another process serves it.
type served struct {
	*sharedkv.SignalClient
	cmd   *exec.Cmd
	alive io.Closer // its input: it ends with that
}

// serve starts the process that has the engines.
func serve(url, place string) (kvstore.Store, error) {
	cmd := exec.Command("go", "run", "github.com/fermata-ai/fermata/examples/cluster/serve",
		"-store", url, "-place", place)
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("store: Go runs the process that has the engines: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(errors.New("store: it isn't opened"), cmd.Wait())
	}
	client := sharedkv.OpenSignals(context.Background(), strings.TrimSpace(line), nil)
	return &served{client, cmd, alive}, nil
}

// Close implements [kvstore.Store].
func (s *served) Close() error {
	return errors.Join(s.SignalClient.Close(), s.alive.Close(), s.cmd.Wait())
}
