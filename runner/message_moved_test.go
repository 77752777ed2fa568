package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// A leaf of the tree is answered while a superseding message comes in: while
// its Authorizer is asked, or before any of its writes. If the message was not
// stored by then, the child goes on with the answer, and the message waits for
// what comes of it. What else waits is denied.
func TestLeafThatIsAnsweredWhileAMessageSupersedes(t *testing.T) {
	for name, wrap := range engineKinds {
		worked, denied := 0, 0
		for n := range 7 {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				var r *rig
				var answering sync.Mutex         // guards what follows
				accepted, before := false, false // before the message was stored
				answer := func() {
					answering.Lock()
					defer answering.Unlock()
					st, err := r.store.Load(context.Background(), chat)
					must(t, err)
					c := st.Call(delegate(0))
					before = c != nil && c.Status == session.Pending
					_, err = r.Resume(context.Background(), child(0),
						runner.Complete("p.1", "bob", []byte(`{"text":"yes"}`)))
					accepted = err == nil
				}
				o := &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
					if n == 0 && !accepted && op.Answer == runner.AnswerDeny {
						answer()
					}
					return nil
				}}
				r = treeRigOn(t, wrap, o, awaits{"p": asksByForm}, awaits{"q": asksByForm})
				if n > 0 {
					r.atApply(n, answer)
				}
				s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Never mind."),
					&runner.RunOptions{Supersede: true}))
				s.finished(event.FinishStop)
				r.faults.Before(nil)
				answering.Lock() // the courier's last write may be just before its answer
				kept := accepted && before
				answering.Unlock()
				c, err := r.Call(t.Context(), chat, delegate(0), user)
				must(t, err)
				switch done := c.Settled == event.Done; {
				case done:
					worked++
				case kept:
					t.Errorf("the answer was accepted, and then the call ended as %s", c.Settled)
				default:
					denied++
				}
				c, err = r.Call(t.Context(), chat, delegate(1), user)
				if must(t, err); c.Settled != event.Denied {
					t.Errorf("the other call ended as %s", c.Settled)
				}
				must(t, r.Close())
			})
		}
		if worked == 0 || denied == 0 {
			t.Errorf("%s: %d times the child went on, %d times not", name, worked, denied)
		}
	}
}

// Another actor commits below whenever a superseding message is about to be
// stored. The message is given up in the end, and has denied nothing.
func TestSupersedingMessageIsNotOvertakenForEver(t *testing.T) {
	t.Parallel()
	r := treeRig(t, nil, awaits{"q": asksByForm})
	moves, in, waits := 0, false, len(r.transcript().Pending)
	r.faults.Before(func(faultkv.Call) {
		if in || moves == 1500 {
			return
		}
		in, moves = true, moves+1
		must(t, r.Extend(t.Context(), child(0), "q.1", "bob",
			time.Now().Add(time.Hour+time.Duration(moves)*time.Second)))
		in = false
	})
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Never mind."),
		&runner.RunOptions{Supersede: true}))
	if !errors.Is(s.err, session.ErrPending) || moves == 1500 {
		t.Errorf("after %d other commits it ended with %v", moves, s.err)
	}
	r.faults.Before(nil)
	if p := r.transcript().Pending; len(p) != waits || slices.Contains(r.texts(), "Never mind.") {
		t.Errorf("%d calls wait, and the messages are %q", len(p), r.texts())
	}
}
