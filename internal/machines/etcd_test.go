package machines

import (
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/internal/fleet"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
)

// etcdEngine is an etcd of three members, each a process.
type etcdEngine struct {
	*ways
	cluster *etcdserver.Cluster
	store   *etcd.Store
}

func newEtcd(t *testing.T, late time.Duration) *etcdEngine {
	t.Helper()
	cluster, err := etcdserver.StartCluster(t.TempDir(), 3)
	must(t, err)
	t.Cleanup(func() { must(t, cluster.Close()) })
	store, err := etcd.Open(t.Context(), "etcd://"+strings.Join(cluster.Addrs(), ","), nil)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return &etcdEngine{newWays(t, late, cluster.Addrs()...), cluster, store}
}

func (e *etcdEngine) URL(process string) string {
	return "etcd://" + strings.Join(e.of(process), ",")
}

func (e *etcdEngine) Store() kvstore.Store { return e.store }

func (e *etcdEngine) Deeds() []fleet.Deed {
	return append(e.deeds(),
		fleet.Deed{What: "kills of etcd's leader", Often: 1, Everywhere: true,
			Do: e.without(e.cluster.Kill, e.cluster.Start)},
		fleet.Deed{What: "leaders of etcd that are cut off from the others", Often: 1, Everywhere: true,
			Do: e.without(e.cluster.CutOff, e.cluster.Mend)},
		fleet.Deed{What: "stops of etcd's leader", Often: 1, Everywhere: true,
			Do: e.without(e.cluster.Stop, e.cluster.Continue)})
}

// without does something to the member that leads, and ends it. The others elect
// another leader meanwhile.
func (e *etcdEngine) without(do, end func(member int) error) func(*testing.T, string, time.Duration) {
	return func(t *testing.T, _ string, long time.Duration) {
		n, err := e.cluster.Leader()
		if err == nil {
			n = max(n, 0) // none leads just now
			err = do(n)
		}
		time.Sleep(long)
		if err == nil {
			err = end(n)
		}
		if err != nil {
			t.Errorf("etcd: %v", err)
		}
	}
}

// Four processes on an etcd of three members, by its clock, under faults of all
// kinds: nothing is lost, nothing is done twice, and no session is stuck.
func TestEtcdUnderFaults(t *testing.T) {
	fleet.Run(t, fleet.Config{Engine: newEtcd(t, 5*time.Millisecond), Lease: 2 * time.Second,
		Rounds: testlength.Machines.Rounds(.6), EngineClock: true, Processes: roles,
		Patience: time.Minute})
}

// Clocks that are minutes apart take no live drive's session away.
func TestEtcdWithWrongClocks(t *testing.T) {
	long(t)
	fleet.Run(t, fleet.Config{Engine: newEtcd(t, 5*time.Millisecond), Lease: 3 * time.Second,
		Rounds: testlength.Machines.Rounds(.2), Calm: true, Processes: roles,
		Patience: time.Minute})
}

// While processes are replaced by those of a later version, one by one, and some
// taken back, etcd's sessions go on.
func TestEtcdOfTwoVersions(t *testing.T) {
	long(t)
	fleet.Run(t, fleet.Config{Engine: newEtcd(t, 0), Lease: 2 * time.Second,
		Rounds: testlength.Machines.Rounds(.2), EngineClock: true, Processes: roles, Versions: true,
		Patience: time.Minute})
}
