package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// minute is a tool whose body takes a minute.
func minute(t *testing.T, p tool.HandlePolicy) tool.Tool {
	return underPolicy(t, "build", tool.Idempotent, p,
		func(ctx context.Context, in target) (tool.Result[string], error) {
			select {
			case <-time.After(time.Minute):
				return tool.Done("built " + in.Target), nil
			case <-ctx.Done():
				return tool.Done(""), ctx.Err()
			}
		})
}

// waitsOutside is a tool whose calls wait for the outside.
func waitsOutside(t *testing.T, p tool.HandlePolicy) tool.Tool {
	return underPolicy(t, "build", tool.Idempotent, p,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		})
}

// inquired is a rule for the requests by which a model is asked of its handles.
func inquired(answer string) fakellm.Turn {
	return fakellm.When(fakellm.UserSays("about to end your turn"), fakellm.Says(answer))
}

func fate(id, action string) string {
	return fmt.Sprintf(`{"handles":[{"id":%q,"action":%q}]}`, id, action)
}

func begin(ids ...string) fakellm.Turn {
	return fakellm.Calls("build", fmt.Sprintf(`{"action":"spawn","id":%q,"target":"x"}`, ids[0]))
}

// told returns the states of the notices that the model was told, in order.
func told(model *fakellm.Model) (all []string) {
	for _, req := range model.Requests() {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
			for _, n := range last.Notices() {
				all = append(all, n.Handle+": "+n.State+": "+n.Text)
			}
		}
	}
	return all
}

// What becomes of a handle that is open when the model would end its turn.
func TestPoliciesAtTheEndOfATurn(t *testing.T) {
	const stopped = "a: stopped, with its result: built x"
	for name, test := range map[string]struct {
		policy   tool.HandlePolicy
		answer   string // to the inquiry; empty: there is none
		requests int
		took     time.Duration
		told     string // the beginning of the notice; empty: there is none
	}{
		"inquire, wait":  {answer: fate("a", "wait"), requests: 4, took: time.Minute, told: stopped},
		"inquire, abort": {answer: fate("a", "abort"), requests: 3},
		"inquire, never fits": {
			answer: fate("b", "abort"), requests: 6, took: time.Minute, told: stopped},
		"await": {policy: tool.HandlePolicy{AtEnd: tool.AwaitAtEnd}, requests: 3,
			took: time.Minute, told: stopped},
		"await, not so long": {
			policy:   tool.HandlePolicy{AtEnd: tool.AwaitAtEnd, Limit: time.Second},
			requests: 3, took: time.Second, told: "a: failed: "},
		"await, quietly": {
			policy:   tool.HandlePolicy{AtEnd: tool.AwaitAtEnd, NoSuccess: true},
			requests: 3, took: time.Minute, told: stopped},
		"abort": {policy: tool.HandlePolicy{AtEnd: tool.AbortAtEnd}, requests: 2},
		"keep":  {policy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := fakellm.New(inquired(test.answer), begin("a"), fakellm.Says("Begun."),
					fakellm.Says("I see."))
				r := newRig(t, agent.Config{Tools: []tool.Tool{minute(t, test.policy)}, Model: model},
					&rigOptions{memory: true})
				start := time.Now()
				if s := r.say("Go."); s.end.Finish != event.FinishStop {
					t.Fatalf("%+v, %v", s.end, s.err)
				}
				// An abort takes until the family looks again.
				if took := time.Since(start); took < test.took || took > test.took+5*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := len(model.Requests()); n != test.requests {
					t.Errorf("the model was asked %d times", n)
				}
				all := told(model)
				if len(all) > 1 || (len(all) == 1) != (test.told != "") ||
					!strings.HasPrefix(strings.Join(all, ""), test.told) {
					t.Errorf("it was told %q", all)
				}
				time.Sleep(2 * time.Minute)
				h, err := r.store.Handle(t.Context(), chat, "a")
				must(t, err)
				aborted := name == "abort" || name == "inquire, abort" || test.took == time.Second
				if want := map[bool]event.Status{true: event.Cancelled, false: event.Done}[aborted]; h.Status != want {
					t.Errorf("the handle is %q", h.Status)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// A run inquires three times at most. Then the rest is aborted.
func TestInquiriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := []fakellm.Turn{}
		for _, id := range []string{"a", "b", "c", "d"} {
			script = append(script, fakellm.When(fakellm.UserSays(`"id":"`+id+`"`),
				fakellm.Says(fate(id, "wait"))))
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			script = append(script, begin(id), fakellm.Says("Begun."))
		}
		model := fakellm.New(script...)
		r := newRig(t, agent.Config{Tools: []tool.Tool{minute(t, tool.HandlePolicy{})}, Model: model},
			&rigOptions{memory: true})
		if s := r.say("Go."); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		if n := len(model.Requests()); n != 11 {
			t.Errorf("the model was asked %d times", n)
		}
		time.Sleep(2 * time.Minute)
		for id, want := range map[string]event.Status{"c": event.Done, "d": event.Cancelled} {
			h, err := r.store.Handle(t.Context(), chat, id)
			must(t, err)
			if h.Status != want {
				t.Errorf("%s is %q", id, h.Status)
			}
		}
		must(t, r.Close())
		r.sound()
	})
}

// A message ends the wait at the end of a turn, and no handle. CancelSession
// ends both, but for a handle that is kept.
func TestALingeringRunEndsEarly(t *testing.T) {
	for _, policy := range []tool.AtEnd{tool.AwaitAtEnd, tool.KeepAtEnd} {
		model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("Hello."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{waitsOutside(t, tool.HandlePolicy{AtEnd: policy})},
			Model: model}, &rigOptions{memory: true})
		finish := event.FinishPaused
		if policy == tool.KeepAtEnd {
			finish = event.FinishStop
		}
		for _, text := range []string{"Go.", "Hello?"} {
			if s := r.say(text); s.end.Finish != finish {
				t.Fatalf("%+v, %v", s.end, s.err)
			}
		}
		must(t, r.CancelSession(t.Context(), chat, user, "no"))
		r.settled()
		h, err := r.store.Handle(t.Context(), chat, "a")
		must(t, err)
		if h.Open() != (policy == tool.KeepAtEnd) {
			t.Errorf("%s: the handle is %q", policy, h.Status)
		}
		must(t, r.Close())
		r.sound()
	}
}

// CancelSession ends handles however many they are, and Delete takes them along.
func TestManyHandlesEndWithTheirSession(t *testing.T) {
	t.Parallel()
	const most = 120
	var script []fakellm.Turn
	for i := 0; i < most; i += 60 {
		reply := begin(fmt.Sprint("h", i))
		for j := i + 1; j < i+60; j++ {
			reply = reply.And("build", fmt.Sprintf(`{"action":"spawn","id":"h%d","target":"x"}`, j))
		}
		script = append(script, reply)
	}
	model := fakellm.New(append(script, fakellm.Says("Begun."))...)
	p := tool.HandlePolicy{AtEnd: tool.AwaitAtEnd}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waitsOutside(t, p)}, Model: model},
		&rigOptions{memory: true})
	if s := r.say("Go."); s.end.Finish != event.FinishPaused {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	must(t, r.CancelSession(t.Context(), chat, user, "no"))
	r.settled()
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	if st.Handles != 0 || len(st.Outbox) != 0 {
		t.Errorf("%d handles are open, and it owes %v", st.Handles, st.Outbox)
	}
	if n := r.sessions(); n != most+1 {
		t.Errorf("there are %d sessions", n)
	}
	must(t, r.Delete(t.Context(), chat, user))
	r.settled()
	must(t, r.Close())
	for st, err := range r.store.List(t.Context(), public.Filter{Children: true}) {
		must(t, err)
		t.Errorf("%s is left", st.ID)
	}
	r.sound()
}

// Killed at any write, or with any acknowledgement lost, a run that lingers
// comes to the same: an inquiry that was cut off is made again.
func TestALingeringRunKilledAtEveryWrite(t *testing.T) {
	for _, action := range []string{"wait", "abort"} {
		for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
			for n, struck := 1, true; struck; n++ {
				t.Run(action+" "+fault(n).String(), func(t *testing.T) {
					model := fakellm.New(inquired(fate("a", action)), begin("a"),
						fakellm.Says("Begun."), fakellm.Says("Done."))
					r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model},
						&rigOptions{memory: true})
					r.faults.Add(fault(n).AndDie())
					r.tell("m-1", "Go.")
					struck = r.faults.Struck() > 0
					r.restart()
					r.tell("m-1", "Go.")
					end := watch(t, r.Continue(t.Context(), chat, user)).end
					if end.Finish != event.FinishStop {
						t.Fatalf("it ends %+v", end)
					}
					r.settled()
					must(t, r.Close())
					st, err := r.store.Load(t.Context(), chat)
					must(t, err)
					if st.Linger != nil || st.Handles != 0 || st.Kept != 0 || len(st.Outbox) != 0 {
						t.Errorf("it is left with %+v", st)
					}
					r.sound()
				})
			}
		}
	}
}

// A handle that waits for an answer is told of once, unless its policy keeps
// that from the model.
func TestAHandleThatAsksIsToldOf(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		asks := underPolicy(t, "build", tool.Idempotent,
			tool.HandlePolicy{AtEnd: tool.KeepAtEnd, NoWaiting: quiet},
			func(context.Context, target) (tool.Result[string], error) {
				return tool.NeedInput[string]("Which compiler?"), nil
			})
		model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("Hello."),
			fakellm.Says("Hello."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{asks}, Model: model}, &rigOptions{memory: true})
		r.say("Go.")
		r.settled()
		r.say("Hello?")
		r.say("Hello?")
		all := told(model)
		if len(all) > 1 || (len(all) == 0) != quiet ||
			len(all) == 1 && !strings.Contains(all[0], "waiting for the user") {
			t.Errorf("the model was told %q", all)
		}
		must(t, r.Close())
		r.sound()
	}
}
