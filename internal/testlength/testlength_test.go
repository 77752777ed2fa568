package testlength

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLengths(t *testing.T) {
	k := Kind{short: 2, full: 5}
	for length, want := range map[string]int{"": 2, "short": 2, "full": 5} {
		t.Setenv(Variable, length)
		if got := len(slices.Collect(k.Rounds(1))); got != want || k.N() != want {
			t.Errorf("%q: %d rounds, %d in all, and not %d", length, got, k.N(), want)
		}
	}
	for length, want := range map[string]int{"short": 3, "full": 7} {
		t.Setenv(Variable, length)
		if got := slices.Collect(EachNth(3, 7)); len(got) != want {
			t.Errorf("%q: %d", length, got)
		}
		if got := Part(3, 7); got != want-(want%7)/3 {
			t.Errorf("%q: %d", length, got)
		}
	}
}

// By time, a test gets its share, the short length at least, and the full one
// at most.
func TestRoundsByTime(t *testing.T) {
	for length, want := range map[string]int{"1s": 2, "10s": 5, "1h": 9} {
		t.Setenv(Variable, length)
		synctest.Test(t, func(t *testing.T) {
			n := 0
			for range (Kind{short: 2, full: 9}).Rounds(.5) {
				n++
				time.Sleep(time.Second)
			}
			if n != want {
				t.Errorf("%s: %d rounds, and not %d", length, n, want)
			}
		})
	}
}

func TestWrongLength(t *testing.T) {
	t.Setenv(Variable, "long")
	defer func() {
		if recover() == nil {
			t.Error("it is taken")
		}
	}()
	Checks.N()
}
