package fermatatest_test

import (
	"hash/crc32"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/internal/testlength"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// killed cuts scenarios at every write: in a short test at every n-th, and by
// time at others in each pass. Share is the test's part of the time. With an
// Every, a pass that isn't of a full test cuts so many times fewer: of what has
// very many writes. A short test cuts each scenario on one of the engines, and
// in half of the ways in which a write may go wrong, by its name; of many writes
// it cuts a third of what a pass does.
func killed(t *testing.T, share float64, o fermatatest.Options, scenarios ...fermatatest.Scenario) {
	t.Helper()
	if e := elsewhere(); e != nil {
		o.Engines = e
	}
	fewer := 1
	if testlength.Cuts.N() < testlength.EveryCut {
		fewer = max(1, o.Every)
	}
	for pass := range testlength.Cuts.Rounds(share) {
		o.Every, o.First = fewer*testlength.EveryCut, fewer*pass
		if !testlength.Short() {
			fermatatest.Run(t, &o, scenarios...)
			continue
		}
		o.Every *= 3
		for i, s := range scenarios { // they come in pairs, an effect each
			one := o
			one.Half(crc32.ChecksumIEEE([]byte(s.Name))%2 > 0)
			if n := len(o.Engines); n > 1 {
				e := (i + i/2) % n
				one.Engines = o.Engines[e : e+1]
			}
			fermatatest.Run(t, &one, s)
		}
	}
}

// In memory every scenario is cut, with leases in memory and with stored ones.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	killed(t, .3, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())},
	}, scenarios()...)
}

// On bbolt, whose files are written for real, so are those whose commits differ
// most.
func TestKilledAtEveryWriteOfAFile(t *testing.T) {
	t.Parallel()
	all := append(named(t, "three in parallel, once", "approval, then a pause, idempotent",
		"an early answer, once"), largeAnswer(200<<10))
	killed(t, .2, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, all...)
}

// Payloads are written before the commit that refers to them, and not all at
// once.
func TestKilledAtEveryWriteOfPayloads(t *testing.T) {
	t.Parallel()
	all := append(eachNth(2, large(62<<10)), largeAnswer(200<<10), largeAnswer(520<<10))
	killed(t, .2, fermatatest.Options{Every: 2,
		Engines: []fermatatest.Engine{fermatatest.Memory()}}, all...)
}

// The process after the one that was killed is killed, too, at each of its
// writes.
func TestKilledTwice(t *testing.T) {
	t.Parallel()
	killed(t, .3, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())}, Twice: true,
	}, eachNth(5, scenarios())...)
}

// named returns the scenarios of those names.
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
