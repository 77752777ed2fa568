package fermatatest_test

import (
	"flag"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/fermatatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var every = flag.Bool("every", false, "cut every scenario on files, too, and kill the next process as well: that takes long")

// In memory every scenario is cut everywhere, with leases in memory and with stored ones.
func TestKilledAtEveryWrite(t *testing.T) {
	fermatatest.Run(t, &fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(), fermatatest.Shared(fermatatest.Memory())},
	}, scenarios()...)
}

// On bbolt, whose files are written for real, so are those whose commits differ most.
func TestKilledAtEveryWriteOfAFile(t *testing.T) {
	all := scenarios()
	if !*every {
		all = append(named(t, "three in parallel, once", "approval, then a pause, idempotent", "an early answer, once"), largeAnswer(200<<10))
	}
	fermatatest.Run(t, &fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, all...)
}

// Payloads are written before the commit that refers to them, and not all at once.
func TestKilledAtEveryWriteOfPayloads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	all := []fermatatest.Scenario{large(70 << 10)[1], largeAnswer(600 << 10)}
	if *every {
		all = append(all, large(70 << 10)[0], largeAnswer(200<<10))
	}
	fermatatest.Run(t, &fermatatest.Options{Engines: []fermatatest.Engine{fermatatest.Memory()}}, all...)
}

// The process that comes after the one that was killed is killed, too, wherever that can be.
func TestKilledTwice(t *testing.T) {
	all := scenarios()
	if !*every {
		all = named(t, "one tool, once", "an early answer, idempotent", "message as answer, idempotent")
	}
	fermatatest.Run(t, &fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(), fermatatest.Shared(fermatatest.Memory())}, Twice: true,
	}, all...)
}

// named are the scenarios of those names.
func named(t *testing.T, names ...string) (found []fermatatest.Scenario) {
	t.Helper()
	for _, s := range scenarios() {
		if slices.Contains(names, s.Name) {
			found = append(found, s)
		}
	}
	if len(found) != len(names) {
		t.Fatalf("there are %d scenarios of these names, not %d: %q", len(found), len(names), names)
	}
	return found
}
