package kvstore

import (
	"sync"
	"time"
)

// Clock is implemented by an engine that has a time of its own: one clock for
// all processes that share it.
type Clock interface {
	Store
	// Now returns the engine's time, and by how much that may be off. It never
	// waits for the engine. A zero time: it isn't known.
	Now() (t time.Time, within time.Duration)
}

// Timekeeper is for those who write a [Clock]: it knows the engine's time from
// the last answers that told it. Any goroutine may use it. Its zero value knows
// no time.
type Timekeeper struct {
	mu  sync.Mutex
	now told
}

// told is what an answer told.
type told struct {
	at, wall time.Time // when it was on its way, by the monotonic clock and the wall clock
	time     time.Time // the engine's, at that moment
	within   time.Duration
}

// Clocks differ in speed by a thousandth at most. Real ones differ by a tenth
// of that.
const clockDrift = 1000

// Observe takes in a time that the engine told. Asked is when it was asked, as
// time.Now told it: the engine told its time between then and now. An answer
// that was long on its way is worth less than one that was quick.
func (k *Timekeeper) Observe(asked, engine time.Time) {
	half := time.Since(asked) / 2
	at := asked.Add(half)
	k.mu.Lock()
	defer k.mu.Unlock()
	know, within := k.now.estimate(at)
	off := engine.Sub(know).Abs()
	// A time that doesn't fit what is known: the engine's clock was set.
	if k.now.time.IsZero() || half <= within || off > half+within {
		k.now = told{at, at.Round(0), engine.Round(0), half}
	}
}

// Now is that of a [Clock].
func (k *Timekeeper) Now() (t time.Time, within time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now.estimate(time.Now())
}

// estimate returns the engine's time at a moment of this process. If the
// process's own two clocks don't agree on how much time has passed, the machine
// slept, or its clock was set, and by so much the estimate may be off.
func (o told) estimate(at time.Time) (t time.Time, within time.Duration) {
	if o.time.IsZero() {
		return o.time, 0
	}
	passed := at.Sub(o.at)
	within = o.within + passed.Abs()/clockDrift
	if apart := (at.Round(0).Sub(o.wall) - passed).Abs(); apart > time.Second {
		within += apart
	}
	return o.time.Add(passed), within
}
