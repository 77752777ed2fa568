// Package sharedkv is an engine that several processes share, with the faults
// of a network: a [Server] serves a [kvstore.Store] over TCP on the loopback
// interface, and a [Client] is that store for one process. A client is not a
// [kvstore.Exclusive], so that leases are stored and end by time.
//
// It is for tests of several processes, or of several runners in one:
//
//	server, err := sharedkv.Listen(kvstore.NewMemory())
//	one := sharedkv.Open(server.Addr(), &sharedkv.Options{Name: "one"})
//	two := sharedkv.Open(server.Addr(), &sharedkv.Options{Name: "two"})
//	server.SetFaults("two", sharedkv.Faults{
//		Delay: 20 * time.Millisecond, Lose: .01})
//
// Whatever the faults, Apply and Get stay linearizable, and revisions never
// fall. It is no database: its data are as durable as the store beneath, and
// any process that reaches the port may write.
package sharedkv

import (
	"math/rand/v2"
	"time"
)

// Faults are what may happen to a client's requests. Chances are from 0 to 1.
// The zero Faults does nothing.
type Faults struct {
	// Delay is the most that a request waits before it is carried out. Requests
	// that are under way at once overtake each other.
	Delay time.Duration
	// Late is the chance that an Apply is carried out, and its answer held
	// back, for LateBy at most.
	Late   float64
	LateBy time.Duration
	// Lose is the chance that an Apply is carried out and never answered.
	Lose float64
	// Cut is the chance that an Apply breaks its client's connection: before it
	// is carried out, or after.
	Cut float64
}

// Counts are the faults that struck so far.
type Counts struct {
	Late, Lost, Cut, Stalled int // requests
}

// Sum returns how many faults struck.
func (c Counts) Sum() int { return c.Late + c.Lost + c.Cut + c.Stalled }

// fate is what happens to one request.
type fate struct {
	delay, late               time.Duration
	lose, cutBefore, cutAfter bool
}

func (f Faults) fate(write bool) (x fate) {
	if f.Delay > 0 {
		x.delay = rand.N(f.Delay)
	}
	if !write {
		return x
	}
	switch p := rand.Float64(); {
	case p < f.Late:
		x.late = 1 + rand.N(max(f.LateBy, 1))
	case p < f.Late+f.Lose:
		x.lose = true
	case p < f.Late+f.Lose+f.Cut/2:
		x.cutBefore = true
	case p < f.Late+f.Lose+f.Cut:
		x.cutAfter = true
	}
	return x
}
