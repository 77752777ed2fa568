package kvtest

import (
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// other returns a second value over what a store holds, as another process has
// it.
func (s store) other(c Config) store {
	s.t.Helper()
	if c.Reopen == nil {
		s.t.Skip("this engine can't be opened twice")
	}
	two := store{s.t, c.Reopen(s.t, s.kv)}
	s.t.Cleanup(func() { two.kv.Close() })
	return two
}

// patience is how long a signal may take, or a clock that isn't known yet.
const patience = 20 * time.Second

// signalsBetween makes sure that a signal reaches who watches its topic, and
// only those, and that they see what was written before it.
func signalsBetween(t *testing.T, c Config) {
	s := open(t, c)
	here, ok := s.kv.(kvstore.Signaler)
	if !ok {
		t.Skip("this engine carries no signals")
	}
	two := s.other(c)
	there := two.kv.(kvstore.Signaler)
	woken, other := make(chan struct{}, 1), make(chan struct{}, 1)
	into := func(c chan struct{}) func() {
		return func() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	there.Signal("work") // for which none waits
	stop := here.Watch("work", into(woken))
	stopOther := here.Watch("more work", into(other))
	defer stopOther()
	end := time.After(patience)
	wait := func(again func()) {
		t.Helper()
		every := time.NewTicker(patience / 100) // signals may be lost
		defer every.Stop()
		for {
			again()
			select {
			case <-woken:
				return
			case <-every.C:
			case <-end:
				t.Fatal("no signal has come")
			}
		}
	}
	wait(func() { there.Signal("work") })
	r := two.put("a", "1")
	for range 3 {
		there.Signal("work") // it never waits
	}
	wait(func() { there.Signal("work") })
	s.has("a", "1", r)
	// An engine that makes a new connection wakes all, as it may here and there.
	// One that takes topics for each other does so each time.
	for n := 1; ; n++ {
		for len(other) > 0 {
			<-other
		}
		for range 2 { // the first one's wakes are over when the second comes
			wait(func() { there.Signal("work") })
		}
		if len(other) == 0 {
			break
		}
		if n == 5 {
			t.Fatal("a signal of one topic wakes those of another")
		}
	}
	stop()
	stop() // once more is nothing
	two.kv.Close()
	there.Signal("work") // nor is one after the end
}

// clock makes sure that the processes that share an engine with a clock have
// the same time.
func clock(t *testing.T, c Config) {
	s := open(t, c)
	one, ok := s.kv.(kvstore.Clock)
	if !ok {
		t.Skip("this engine has no clock")
	}
	two := s.other(c).kv.(kvstore.Clock)
	first, firstOff := one.Now()
	second, secondOff := two.Now()
	third, thirdOff := one.Now()
	if first.IsZero() || second.IsZero() || third.IsZero() {
		t.Fatalf("of a store that was just opened the time isn't known: %v, %v, %v", first,
			second, third)
	}
	if first.After(second.Add(firstOff + secondOff)) {
		t.Errorf("one process has %v (within %v), and then another one %v (within %v)", first,
			firstOff, second, secondOff)
	}
	if second.After(third.Add(secondOff + thirdOff)) {
		t.Errorf("one process has %v (within %v), and then another one %v (within %v)", second,
			secondOff, third, thirdOff)
	}
}
