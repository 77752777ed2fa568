package kvstore_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Signals that come while others are sent go together, each once, and the end
// waits for what is being sent.
func TestSignalsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent [][]string
		s := kvstore.NewSignals(func(ctx context.Context, topics []string) {
			sent = append(sent, topics)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		})
		s.Signal("a")
		synctest.Wait()
		for range 1000 {
			s.Signal("c")
			s.Signal("b")
		}
		time.Sleep(1500 * time.Millisecond)
		s.Signal("lost")
		begun := time.Now()
		s.Close()
		s.Signal("late")
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("the end took %v", waited)
		}
		if want := [][]string{{"a"}, {"b", "c"}}; !slices.EqualFunc(sent, want, slices.Equal) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}

// A quick answer tells the engine's time better than a slow one, until much
// time has passed. A clock that was set is followed at once.
func TestTimekeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kvstore.Timekeeper
		if now, within := k.Now(); !now.IsZero() || within != 0 {
			t.Errorf("without an answer it is %v, within %v", now, within)
		}
		ahead := time.Hour
		answer := func(took, told time.Duration) { // told: after so much of it
			asked := time.Now()
			time.Sleep(told)
			engine := time.Now().Add(ahead)
			time.Sleep(took - told)
			k.Observe(asked, engine)
		}
		is := func(wantOff, wantWithin time.Duration) {
			t.Helper()
			now, within := k.Now()
			off := now.Sub(time.Now().Add(ahead))
			if off != wantOff || within != wantWithin || off.Abs() > within {
				t.Errorf("off by %v, within %v; want %v, within %v", off, within, wantOff, wantWithin)
			}
		}
		const ms = time.Millisecond
		answer(20*ms, 20*ms)
		is(10*ms, 10*ms+10*time.Microsecond)
		answer(2*ms, 1*ms)
		is(0, ms+time.Microsecond)
		answer(40*ms, 0) // slow: it isn't taken
		is(0, ms+41*time.Microsecond)
		time.Sleep(time.Minute) // now the same would be
		answer(40*ms, 0)
		is(-20*ms, 20*ms+20*time.Microsecond)
		ahead = -time.Hour
		answer(100*ms, 50*ms)
		is(0, 50*ms+50*time.Microsecond)
	})
}
