package property

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/testlength"
)

// The flag -rapid.checks counts more than the length.
func TestCheckRunsAsOftenAsTheLengthSays(t *testing.T) {
	checks, want := 0, testlength.Checks.N()
	flag.Visit(func(f *flag.Flag) {
		if f.Name == checksFlag {
			want, _ = strconv.Atoi(f.Value.String())
		}
	})
	Check(t, func(*rapid.T) { checks++ })
	if checks != want {
		t.Errorf("%d checks, and not %d", checks, want)
	}
}
