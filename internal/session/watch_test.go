package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// A drive lives for as long as it commits, though its clock stands still: what
// it commits is told apart without that.
func TestHolderWhoseClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := struct{ kvstore.Store }{kvstore.NewMemory()}
		at := time.Now()
		holder, other := NewStore(engine,
			&Options{Now: func() time.Time { return at }}), NewStore(engine, nil)
		d, err := holder.Acquire(t.Context(), "s", &New{User: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		entry, err := NewEntry(llm.UserText("Go."))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Update(t.Context(), func(tx *Tx) error {
			return tx.Say(entry, "", "", false)
		}); err != nil {
			t.Fatal(err)
		}
		take := func() error {
			d, err := other.Acquire(context.Background(), "s", nil)
			if err == nil {
				d.Release()
			}
			return err
		}
		for range 60 { // the drive renews its lease by itself
			time.Sleep(10 * time.Second)
			if err := take(); !errors.Is(err, ErrBusy) {
				t.Fatalf("another drive gets %v", err)
			}
			// What others commit is no sign of life.
			if err := other.Update(t.Context(), "s", func(tx *Tx) error {
				tx.Run.Detached = !tx.Run.Detached
				tx.touch()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		d.Abandon()
		for range 3 {
			if err := take(); !errors.Is(err, ErrBusy) {
				t.Fatalf("another drive gets %v", err)
			}
			if err := other.Update(t.Context(), "s", func(tx *Tx) error {
				tx.touch()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
		}
		time.Sleep(9 * time.Second)
		if err := take(); err != nil {
			t.Errorf("a lease and a tenth later, another drive gets %v", err)
		}
		for problem, err := range other.Check(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			t.Error(problem)
		}
	})
}

// What a process has seen is bounded. What has no room waits, and what is asked
// about now and then keeps its place.
func TestSightingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sightings{lease: DefaultLease}
		look := func() (age time.Duration) {
			for i := range maxSightings {
				age = s.age(subject{fmt.Sprint(i), sawLease}, mark{count: 1})
			}
			return age
		}
		look()
		for i := range 20 {
			time.Sleep(DefaultLease / 2)
			if got, want := look(), time.Duration(i+1)*DefaultLease/2; got != want {
				t.Fatalf("one that was seen %v ago has been known for %v", want, got)
			}
			last := subject{"last", sawLease}
			if got := s.age(last, mark{count: 1}); got != 0 || len(s.known) > maxSightings {
				t.Fatalf("one without room has been known for %v, and %d are noted",
					got, len(s.known))
			}
		}
		if got := s.age(subject{"0", sawLease}, mark{count: 2}); got != 0 {
			t.Errorf("one that has changed has been known for %v", got)
		}
	})
}

// TestSightingsMakeRoom: thousands of sessions that were driven, and are over,
// don't keep the next drive that dies from being followed in time.
func TestSightingsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sightings{lease: DefaultLease}
		for i := range maxSightings {
			s.age(subject{fmt.Sprint("over-", i), sawLease}, mark{epoch: 1, count: 1})
		}
		dead, died := subject{"dead", sawLease}, time.Now()
		for s.age(dead, mark{epoch: 1, count: 3}) == 0 && time.Since(died) < time.Hour {
			time.Sleep(DefaultLease / 3) // as workers look
		}
		if got := time.Since(died); got > (forgetAfter+2)*DefaultLease {
			t.Errorf("a drive that died was noted only after %v", got)
		}
		begun := time.Now()
		known := s.age(dead, mark{epoch: 1, count: 3})
		time.Sleep(10 * time.Minute)
		if got := s.age(dead, mark{epoch: 1, count: 3}); got != known+time.Since(begun) {
			t.Errorf("%v later it has been known for %v", time.Since(begun), got)
		}
	})
}

// TestSightingsAreGoneThroughNowAndThen: however many have no room.
func TestSightingsAreGoneThroughNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sightings{lease: DefaultLease}
		begun, swept, sweeps := time.Now(), s.swept, 0
		for range 30 {
			for i := range maxSightings { // all of them are there
				s.age(subject{fmt.Sprint(i), sawLease}, mark{count: 1})
			}
			for i := range 10 {
				time.Sleep(time.Millisecond)
				if s.age(subject{fmt.Sprint("new-", i), sawLease}, mark{count: 1}); s.swept != swept {
					swept = s.swept
					sweeps++
				}
			}
			time.Sleep(DefaultLease / 6)
		}
		if most := int(time.Since(begun)/DefaultLease) + 1; sweeps == 0 || sweeps > most {
			t.Errorf("in %d leases all that is known was gone through %d times", most-1, sweeps)
		}
	})
}

// A session whose entry among those that are watched is gone would not be found
// by a worker: Check tells.
func TestCheckMissesWhatIsWatched(t *testing.T) {
	kv := kvstore.NewMemory()
	s := NewStore(kv, nil)
	d, err := s.Acquire(t.Context(), "s", &New{User: "ada", Agent: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Update(t.Context(), func(tx *Tx) error {
		tx.Due = true
		return tx.Again(time.Minute, "overloaded")
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Release()
	problems := func() (n int) {
		for problem, err := range s.Check(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; problem.Session != "s" {
				t.Error(problem)
			}
		}
		return n
	}
	if n := problems(); n != 0 {
		t.Errorf("%d problems", n)
	}
	if _, err := kv.Apply(t.Context(), kvstore.Batch{
		Deletes: [][]byte{watchKey("ops", "s")},
	}); err != nil {
		t.Fatal(err)
	}
	if n := problems(); n != 1 {
		t.Errorf("%d problems", n)
	}
}
