package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// What a dead drive left tells whether it may have died of the session.
func TestWhatWasInFlight(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	output := &Answer{Pause: 1, Kind: KindComplete, Mode: tool.ModeOutput}
	again := &Answer{Pause: 1, Kind: KindComplete, Mode: tool.ModeReenter}
	waits := &Pause{Reason: tool.ReasonExternal, Mode: tool.ModeOutput}
	for name, test := range map[string]struct {
		st   State
		want bool
	}{
		"nothing":             {State{}, false},
		"the model was asked": {State{Due: true}, false},
		"the model failed": {
			State{Due: true, Retry: &Retry{Failures: 1, At: now.Add(time.Hour)}}, false,
		},
		"a body that was claimed":   {State{Calls: []Call{{Status: Running}}}, true},
		"a call that needs a claim": {State{Calls: []Call{{Status: Requested}}}, false},
		"a call that needs none": {
			State{Calls: []Call{{Status: Requested, Effect: tool.Idempotent}}}, true,
		},
		"an output that was accepted": {
			State{Calls: []Call{{Status: Answered, Effect: tool.ReadOnly, Answer: output}}}, false,
		},
		"an answer to go on with": {
			State{Calls: []Call{{Status: Answered, Effect: tool.ReadOnly, Answer: again}}}, true,
		},
		"an answer to go on with, by a claim": {
			State{Calls: []Call{{Status: Answered, Answer: again}}}, false,
		},
		"an approval":    {State{Calls: []Call{{Status: Answered, Decisions: []Decision{{}}}}}, false},
		"one that waits": {State{Calls: []Call{{Status: Pending, Pause: waits}}}, false},
		"one whose deadline has passed": {
			State{Calls: []Call{{Status: Pending, Pause: &Pause{Deadline: now}}}}, true,
		},
		"one that is to be cancelled": {
			State{Ending: &Halt{}, Calls: []Call{{Status: Pending, Pause: waits}}}, true,
		},
		"results that ride with the model's": {State{Calls: []Call{{Status: Settled}}}, false},
		"results that end the run": {
			State{Ending: &Halt{}, Calls: []Call{{Status: Settled}}}, true,
		},
	} {
		if got := test.st.inFlight(now); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Each of a thousand sessions that one death has thrown together is tried again
// at a time of its own, later after each death, and at the same time by every
// process.
func TestSessionsAreTriedAgainOneByOne(t *testing.T) {
	at := time.Now().UTC()
	one := NewStore(kvstore.NewMemory(), &Options{Now: func() time.Time { return at }})
	other := NewStore(kvstore.NewMemory(), &Options{Now: func() time.Time { return at }})
	times := map[time.Time]bool{}
	for i := range 1000 {
		before := time.Duration(0)
		for n := 1; n < 40; n++ {
			st := &State{ID: fmt.Sprint("s-", i), Takeovers: n, TakenOver: at}
			again := one.TriedAgain(st)
			if !again.Equal(other.TriedAgain(st)) {
				t.Fatal("two processes differ")
			}
			wait := again.Sub(at)
			if wait < before || wait > 3*maxWait/2 {
				t.Fatalf("after %d deaths it waits for %v, and before that for %v", n, wait, before)
			}
			before = wait
			if n == 5 {
				times[again] = true
			}
		}
	}
	if len(times) < 500 {
		t.Errorf("a thousand sessions are tried at %d times", len(times))
	}
}
