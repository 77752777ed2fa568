// Package property checks a property of random values, by package rapid, as
// often as the tests' length asks for. Only tests import it.
package property

import (
	"flag"
	"strconv"
	"sync"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/testlength"
)

// Check is rapid.Check with as many checks as the tests' length asks for,
// unless the flag -rapid.checks is given.
func Check(t rapid.TB, property func(*rapid.T)) {
	t.Helper()
	setChecks()
	rapid.Check(t, property)
}

const checksFlag = "rapid.checks"

var setChecks = sync.OnceFunc(func() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == checksFlag })
	if given {
		return
	}
	if err := flag.Set(checksFlag, strconv.Itoa(testlength.Checks.N())); err != nil {
		panic(err)
	}
})
