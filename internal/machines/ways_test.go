package machines

import (
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/fleet"
)

// ways are those of the processes to the servers of an engine.
type ways struct {
	t       *testing.T
	servers []string
	late    time.Duration
	all     map[string][]*way // by process
}

func newWays(t *testing.T, late time.Duration, servers ...string) *ways {
	return &ways{t: t, servers: servers, late: late, all: map[string][]*way{}}
}

// of returns the addresses at which a process finds the servers.
func (w *ways) of(process string) (addresses []string) {
	if w.all[process] == nil {
		for _, server := range w.servers {
			w.all[process] = append(w.all[process], newWay(w.t, server, w.late))
		}
	}
	for _, one := range w.all[process] {
		addresses = append(addresses, one.addr())
	}
	return addresses
}

// Log tells how often connections were cut.
func (w *ways) Log() string {
	n := 0
	for _, all := range w.all {
		for _, one := range all {
			one.mu.Lock()
			n += one.cuts
			one.mu.Unlock()
		}
	}
	return fmt.Sprintf("%6d  connections cut", n)
}

// deeds are what may befall the ways of one process.
func (w *ways) deeds() []fleet.Deed {
	return []fleet.Deed{
		{What: "cuts of all connections of a process", Often: 1,
			Do: func(_ *testing.T, process string, _ time.Duration) {
				for _, one := range w.all[process] {
					one.cut()
				}
			}},
		{What: "processes cut off from the engine for longer than a lease", Often: 2,
			Do: func(_ *testing.T, process string, long time.Duration) {
				for _, one := range w.all[process] {
					one.hold(long)
				}
				time.Sleep(long)
			}},
	}
}

// Heal ends what holds the ways up.
func (w *ways) Heal() {
	for _, all := range w.all {
		for _, one := range all {
			one.hold(0)
		}
	}
}
