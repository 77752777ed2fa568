package runner_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// threeLevels is an agent with an agent as its tool, which has one, too. The
// last one asks a person.
func threeLevels(t *testing.T) agent.Config {
	t.Helper()
	leaf := nestedTool(t, "leaf", fakellm.New(
		fakellm.Calls("ask", `{}`), fakellm.Says("Room 7.")), roomTool())
	middle := nestedTool(t, "middle", fakellm.New(
		fakellm.Calls("leaf", `{"what":"Ask."}`), fakellm.Says("It is room 7.")), leaf)
	return agent.Config{Tools: []tool.Tool{middle}, Model: fakellm.New(
		fakellm.Calls("middle", `{"what":"Book."}`), fakellm.Says("Booked."))}
}

// play sends the message, answers what is asked, and carries on, as far as the
// store lets it. It returns how the run ended.
func (r *rig) play() event.End {
	r.t.Helper()
	end := r.tell("m-1", "Go.").end
	for p, err := range r.Pending(r.t.Context(), public.PauseFilter{Reason: tool.ReasonInput}, "") {
		if err != nil {
			return end
		}
		res, err := r.Resume(r.t.Context(), p.Session,
			runner.Complete(p.ID, "ada", json.RawMessage(`"7"`)))
		if err != nil {
			return end
		}
		end = watch(r.t, res.Events(r.t.Context())).end
	}
	return end
}

// Killed at any write, or with any acknowledgement lost, a tree of sessions
// comes to the same: each agent has worked once, and each result is there.
func TestFamilyKilledAtEveryWrite(t *testing.T) {
	for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
		for n, struck := 1, true; struck; n += testlength.Step(3) {
			t.Run(fault(n).String(), func(t *testing.T) {
				r := newRig(t, threeLevels(t), &rigOptions{memory: true})
				r.faults.Add(fault(n).AndDie())
				r.play()
				struck = r.faults.Struck() > 0
				r.restart()
				if end := r.play(); end.Finish != event.FinishStop {
					end = watch(t, r.Continue(t.Context(), chat, user)).end
					if end.Finish != event.FinishStop {
						t.Fatalf("it ends %+v", end)
					}
				}
				must(t, r.Close())
				if got := r.outputs(); len(got) != 1 || got[0] != `"It is room 7."` {
					t.Errorf("outputs are %q", got)
				}
				if n := r.sessions(); n != 3 {
					t.Errorf("there are %d sessions", n)
				}
				r.sound()
			})
		}
	}
}

// sessions counts the sessions that there are, children too.
func (r *rig) sessions() (n int) {
	r.t.Helper()
	f := public.Filter{Children: true}
	for _, err := range r.Sessions(context.WithoutCancel(r.t.Context()), f, user) {
		must(r.t, err)
		n++
	}
	return n
}

// Whatever write a cancellation, or a deletion, of the root is cut at, the whole
// tree comes to its end once it is sent again, and owes nothing.
func TestFamilyEndsAtEveryWrite(t *testing.T) {
	for name, ends := range map[string]func(*rig) error{
		"cancelled": func(r *rig) error {
			return r.CancelSession(r.t.Context(), chat, user, "no")
		},
		"deleted": func(r *rig) error { return r.Delete(r.t.Context(), chat, user) },
	} {
		for n, struck := 1, true; struck; n++ {
			t.Run(faultkv.FailAt(n).String()+" "+name, func(t *testing.T) {
				r := newRig(t, threeLevels(t), &rigOptions{memory: true})
				r.tell("m-1", "Go.")
				r.faults.Add(faultkv.FailAt(r.faults.Applies() + n).AndDie())
				_ = ends(r)
				r.settled()
				struck = r.faults.Struck() > 0
				r.restart()
				_ = ends(r) // a deleted session is deleted already
				r.settled()
				must(t, r.Close())
				for st, err := range r.store.List(t.Context(), public.Filter{Children: true}) {
					if must(t, err); st.Open() > 0 || len(st.Outbox) > 0 || name == "deleted" {
						t.Errorf("%s is left, with %d open calls, and owes %v", st.ID, st.Open(), st.Outbox)
					}
				}
				r.sound()
			})
		}
	}
}

// settled has a worker work until nothing is left to do, or the store is dead. It
// looks at the chat and at these sessions also when they are deleted.
func (r *rig) settled(also ...string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		_ = r.Work(ctx, &runner.WorkOptions{Poll: time.Millisecond})
	}()
	defer func() { cancel(); <-worked }()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range 5000 {
		<-look.C
		if left, err := r.atWork(append(also, chat)); err != nil || !left {
			return
		}
	}
	r.t.Error("something is left to do")
}

// atWork reports whether any session has work, owes something or is driven, or a
// root owes something.
func (r *rig) atWork(roots []string) (left bool, err error) {
	for st, err := range r.store.List(r.t.Context(), public.Filter{Children: true}) {
		if err != nil {
			return false, err
		}
		driven, _ := r.store.Driven(st)
		left = left || driven || len(st.Outbox) > 0 || r.store.Next(st).Working()
	}
	for _, id := range roots { // perhaps tombstones
		root, err := r.store.Load(r.t.Context(), id)
		if err != nil {
			return left, err
		}
		left = left || len(root.Outbox) > 0
	}
	return left, nil
}
