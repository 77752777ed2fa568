package machines

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/internal/fleet"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
	"github.com/fermata-ai/fermata/kvstore/postgres"
)

func TestMain(m *testing.M) {
	was, err := etcdserver.BeMember()
	if !was {
		was, err = fleet.Child(open)
	}
	if !was {
		was, err = beReplica()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	if !was {
		os.Exit(m.Run())
	}
}

// long leaves a test to "make prove". At short length the tests under faults are
// the taste of processes on servers.
func long(t *testing.T) {
	t.Helper()
	if testlength.Short() {
		t.Skipf("make prove has it, or %s=30s", testlength.Variable)
	}
}

// open opens the store of a process of the fleet.
func open(ctx context.Context, p fleet.Place) (kvstore.Store, error) {
	if strings.HasPrefix(p.URL, "etcd:") {
		s, err := etcd.Open(ctx, p.URL, nil)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := postgres.Open(ctx, p.URL,
		&postgres.Options{Timeout: p.Lease / 3, LockTimeout: p.Lease / 4, NoListen: p.Deaf})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// roles are those of the processes: two take requests, two work.
var roles = []fleet.Role{{Doors: true}, {Doors: true}, {Works: true}, {Works: true}}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
