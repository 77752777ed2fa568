// Package testlength is the one place that decides how long tests go on. Tests
// that try many things of one kind (histories, kills, cuts, random values) ask
// it how many. The kinds depend on it only where a package tells so, see Short.
//
// One environment variable chooses:
//
//	FERMATA_TESTS=short   a taste of every kind, as "make test" has it; the
//	                      default
//	FERMATA_TESTS=full    as "make prove" has it
//	FERMATA_TESTS=90s     as much as fits into that time, beside the short
//	                      length
//
// Only tests import it, and suites of tests.
package testlength

import (
	"fmt"
	"iter"
	"os"
	"time"
)

// Variable is the name of the environment variable.
const Variable = "FERMATA_TESTS"

// Kind is something that tests try many of: how many, at either length.
type Kind struct{ short, full int }

// The kinds, and their numbers.
var (
	// Checks are those of a random property: see internal/property.
	Checks = Kind{25, 1000}
	// Histories are those of many callers on two runners, of each engine.
	Histories = Kind{8, 450}
	// Sessions are those that one worker carries on.
	Sessions = Kind{250, 10_000}
	// Rounds are those of callers that do a few things at one instant, of each
	// engine.
	Rounds = Kind{20, 5000}
	// Lives are those of a program that end by a kill.
	Lives = Kind{12, 400}
	// Years are simulated ones of processes that are restarted.
	Years = Kind{1, 10}
	// Deeds are what befalls several processes that share an engine.
	Deeds = Kind{8, 300}
	// Machines is what befalls processes that share a server, which may fail.
	Machines = Kind{2, 250}
	// Cuts are passes over the writes of a scenario, each of which goes wrong
	// at other ones: see EveryCut. There are as many passes as it takes to come
	// to all of them.
	Cuts = Kind{1, EveryCut}
)

// EveryCut is the number of writes of which a pass cuts one.
const EveryCut = 18

// N returns how many a test tries. Where the length is a time, it is the short
// number.
func (k Kind) N() int {
	if _, full := chosen(); full {
		return k.full
	}
	return k.short
}

// Rounds yields 0, 1, 2 and so on, once for each that a test tries. Where the
// length is a time, the test gets the share of it that it asks for, and goes on
// for so long, but not beyond the full number.
func (k Kind) Rounds(share float64) iter.Seq[int] {
	return func(yield func(int) bool) {
		limit, full := chosen()
		end := time.Now().Add(time.Duration(share * float64(limit)))
		for n := range k.full {
			if !full && n >= k.short && !time.Now().Before(end) || !yield(n) {
				return
			}
		}
	}
}

// Step returns how many steps a test goes on from one of many things to the
// next that it tries: n, and in a full test 1.
func Step(n int) int {
	if _, full := chosen(); full {
		return 1
	}
	return n
}

// Part returns how many of something a test has at once, or one after the
// other: an n-th of all, and in a full test all.
func Part(n, all int) int { return all / Step(n) }

// EachNth yields every n-th number below total, the first included: of things
// that are too many to be tried in each run of a short test. A full test comes
// to all of them.
func EachNth(n, total int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < total; i += Step(n) {
			if !yield(i) {
				return
			}
		}
	}
}

// Short reports whether tests are to be short. A kind that costs a minute of
// processes and servers is left to the other lengths then.
func Short() bool {
	limit, full := chosen()
	return limit == 0 && !full
}

// chosen returns what the environment variable chooses. At short length, the
// time is zero.
func chosen() (limit time.Duration, full bool) {
	switch s := os.Getenv(Variable); s {
	case "", "short":
		return 0, false
	case "full":
		return 0, true
	default:
		limit, err := time.ParseDuration(s)
		if err != nil || limit <= 0 {
			const odd = "testlength: %s is %q, and neither short, full nor a time such as 90s"
			panic(fmt.Sprintf(odd, Variable, s))
		}
		return limit, false
	}
}
