package fleet

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

// programs are what this program may be instead of a test, each by the
// environment variable that makes it that.
var programs = map[string]func(string) error{}

func TestMain(m *testing.M) {
	was, err := Child(openShared)
	for variable, run := range programs {
		if given := os.Getenv(variable); given != "" {
			was, err = true, run(given)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	if !was {
		goleak.VerifyTestMain(m)
	}
}

// shared is an engine of the repository's own, which makes the faults itself.
type shared struct {
	kv     *kvstore.Memory
	server *sharedkv.Server
}

func newShared(t *testing.T, f sharedkv.Faults) shared {
	t.Helper()
	kv := kvstore.NewMemory()
	server, err := sharedkv.Listen(kv)
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	server.SetFaults("", f)
	return shared{kv, server}
}

func openShared(_ context.Context, p Place) (kvstore.Store, error) {
	return sharedkv.Open(p.URL, &sharedkv.Options{Name: p.Process, Deaf: p.Deaf}), nil
}

func (s shared) URL(string) string    { return s.server.Addr() }
func (s shared) Store() kvstore.Store { return kvtest.Shared(s.kv) }
func (s shared) Heal()                { s.server.Heal() }
func (s shared) Log() string {
	return fmt.Sprintf("%6d  faults of the engine: %+v", s.server.Counts().Sum(), s.server.Counts())
}

func (s shared) Deeds() []Deed {
	return []Deed{
		{What: "stalls of the engine longer than a lease", Often: 2,
			Do: func(_ *testing.T, process string, long time.Duration) {
				s.server.Stall(process, long)
				time.Sleep(long)
			}},
		{What: "broken connections", Often: 1,
			Do: func(_ *testing.T, process string, _ time.Duration) { s.server.Cut(process) }},
	}
}

// Processes that share an engine, and are killed, stopped, stalled and cut off,
// by clocks that are minutes apart, lose nothing that was acknowledged, do
// nothing twice, and leave no session behind. A process that was stopped
// between its last look and the first line of a body may still enter it. Such
// entries are counted apart.
func TestFleetUnderFaults(t *testing.T) {
	const lease = 800 * time.Millisecond
	Run(t, Config{Lease: lease, Rounds: testlength.Deeds.Rounds(.5),
		Engine: newShared(t, sharedkv.Faults{Delay: 20 * time.Millisecond, Late: .05,
			LateBy: 2 * lease, Lose: .004, Cut: .01})})
}

// While processes are replaced one by one by those of a later version, and some
// taken back, sessions go on: those in the newer form by the newer ones alone,
// the others by all, and what the newer wrote is kept.
func TestFleetOfTwoVersions(t *testing.T) {
	Run(t, Config{Lease: 800 * time.Millisecond, Rounds: testlength.Deeds.Rounds(.3), Versions: true,
		Engine: newShared(t, sharedkv.Faults{Delay: 5 * time.Millisecond})})
}

// Processes whose clocks are minutes apart don't disturb each other: no call is
// taken for lost, none is done again.
func TestFleetWithWrongClocks(t *testing.T) {
	Run(t, Config{Lease: 2 * time.Second, Calm: true, Rounds: testlength.Deeds.Rounds(.2),
		Engine: newShared(t, sharedkv.Faults{Delay: 5 * time.Millisecond})})
}
