package fleet

import (
	"math/rand/v2"
	"time"
)

// clock is the wall clock of one process. It is wrong, and may step.
type clock struct {
	Offsets []time.Duration // from the right time, one after the other
	Every   time.Duration   // how long each lasts
}

func (c clock) now() time.Time {
	right := time.Now().Round(0) // a wall clock has no monotonic part
	if len(c.Offsets) == 0 {
		return right
	}
	at := 0
	if c.Every > 0 {
		at = int(time.Duration(right.UnixNano())/c.Every) % len(c.Offsets)
	}
	return right.Add(c.Offsets[at])
}

// ahead reports whether the clock has stepped ahead at some time between two
// instants.
func (c clock) ahead(from, to instant) bool {
	wall := func(i instant) int { // how often it has stepped by then
		return int(time.Duration(time.Now().Add(i.sub(now())).UnixNano()) / c.Every)
	}
	last := wall(min(to, now()))
	for step := wall(from) + 1; step <= last; step++ {
		n := len(c.Offsets)
		if c.Offsets[step%n] > c.Offsets[(step-1)%n] {
			return true
		}
	}
	return false
}

// fastest is how far the clock of the first process is ahead. No other one is
// further: so a timer that any process has set is due for the first one when
// its time has passed.
const fastest = 2 * time.Minute

// clockOf returns the clock of the n-th process in its next life: one that is
// ahead, one that steps, and others that are wrong in another way in each life.
// In a calm world no clock steps: a process whose clock steps ahead has to take
// its machine for one that has slept, and its leases for lost.
func clockOf(n int, calm bool, r *rand.Rand) clock {
	switch {
	case n == 0:
		return clock{Offsets: []time.Duration{fastest}}
	case n == 1 && !calm:
		return clock{
			Offsets: []time.Duration{-time.Minute, -3 * time.Minute, time.Minute,
				-time.Minute - 200*time.Millisecond},
			Every: 700 * time.Millisecond,
		}
	}
	return clock{Offsets: []time.Duration{time.Duration(r.IntN(240)-180) * time.Second}}
}
