package fermatatest_test

import (
	"testing"

	"github.com/fermata-ai/fermata/fermatatest"
)

// In memory every scenario is cut everywhere, with leases in memory and with stored ones.
func TestKilledAtEveryWrite(t *testing.T) {
	fermatatest.Run(t, &fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(), fermatatest.Shared(fermatatest.Memory())},
	}, scenarios()...)
}

// On bbolt, whose files are written for real, so are those whose commits differ most.
func TestKilledAtEveryWriteOfAFile(t *testing.T) {
	fermatatest.Run(t, &fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, named("three in parallel, once", "approval, then a pause, idempotent", "early answer, once")...)
}

// Payloads that are written before the commit that refers to them.
func TestKilledAtEveryWriteOfPayloads(t *testing.T) {
	fermatatest.Run(t, &fermatatest.Options{Engines: []fermatatest.Engine{fermatatest.Memory()}}, large(70 << 10)[1])
}

// named are the scenarios of those names, as far as there are any.
func named(names ...string) (found []fermatatest.Scenario) {
	for _, s := range scenarios() {
		for _, name := range names {
			if s.Name == name {
				found = append(found, s)
			}
		}
	}
	return found
}
