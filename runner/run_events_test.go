package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestATurnIsShownInOneOrder: what waited, what came of it, and then what the
// model says of it, to the driver as to followers.
func TestATurnIsShownInOneOrder(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n), instant("weather", tool.ReadOnly, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`).And("weather",
			`{"text":"Oslo"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	kinds := func(events []event.Event) (kinds []string) {
		for _, ev := range events {
			if m, ok := ev.(event.Message); ok {
				kinds = append(kinds, fmt.Sprint(m.Number, " ", m.Message.Role))
			} else {
				kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", ev), "event."))
			}
		}
		return kinds
	}
	run := r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	if diff := cmp.Diff([]string{
		"Result", "2 tool", "TextDelta", "3 assistant", "End",
	}, kinds(run.events)); diff != "" {
		t.Errorf("its driver is shown (-want +got):\n%s", diff)
	}
	follower := watch(t, r.Follow(t.Context(), chat, user, &runner.FollowOptions{From: 2}))
	if diff := cmp.Diff([]string{"2 tool", "3 assistant", "End"}, kinds(follower.events)); diff != "" {
		t.Errorf("a follower is shown (-want +got):\n%s", diff)
	}
}

// TestEveryResultIsShown: also of a call that settles while the listener looks
// at another one's.
func TestEveryResultIsShown(t *testing.T) {
	let, settled := make(chan struct{}), make(chan struct{})
	act := does(tool.Spec{Name: "act", Effect: tool.Idempotent},
		func(_ context.Context, name string) (tool.Result[textOut], error) {
			if name == "b" {
				<-let
			}
			return tool.Done(textOut{name}), nil
		})
	r := newRig(t, agent.Config{
		Model: fakellm.New(asks("act", "a", "b"), fakellm.Says("Well.")), Tools: []tool.Tool{act},
	}, nil)
	var shown []string
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		if res, ok := ev.(event.Result); ok {
			shown = append(shown, string(res.Result.Output))
			if len(shown) == 1 {
				r.faults.After(func(faultkv.Call) { r.faults.After(nil); close(settled) })
				close(let)
				<-settled
			}
		}
	}
	if want := []string{`{"text":"a"}`, `{"text":"b"}`}; !cmp.Equal(shown, want) {
		t.Errorf("it showed %q, not %q", shown, want)
	}
}

// TestOutcomesAreCommittedWhoeverLooksAway: what bodies return is durable at
// once, although the caller that ranges over the events is busy with an earlier
// one. A crash in that time must not cost it.
func TestOutcomesAreCommittedWhoeverLooksAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		work := does(tool.Spec{Name: "work"},
			func(ctx context.Context, s string) (tool.Result[textOut], error) {
				err := tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "half"})
				<-goOn
				return tool.Done(textOut{s}), err
			})
		ask := does(tool.Spec{Name: "ask", MayPause: true},
			func(context.Context, string) (tool.Result[textOut], error) {
				<-goOn
				return tool.Pending[textOut](tool.Await{}), nil
			})
		r := newRig(t, agent.Config{
			Model: messages(calls("work", `{"text":"a"}`, "ask", `{"text":"b"}`), says("Done.")),
			Tools: []tool.Tool{work, ask},
		}, &rigOptions{memory: true})
		looked := false
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			must(t, err)
			if _, ok := ev.(event.Progress); !ok {
				continue
			}
			looked = true
			close(goOn)
			synctest.Wait()
			st, err := r.store.Load(t.Context(), chat)
			must(t, err)
			if len(st.Calls) != 2 || st.Calls[0].Status != session.Settled ||
				st.Calls[1].Status != session.Pending {
				t.Errorf("the calls are %+v", st.Calls)
			}
		}
		if !looked {
			t.Error("no progress was shown")
		}
	})
}

// TestShowHasTheResultsOfSiblings: those that are done stand beside those that
// wait, before any of them is in the history.
func TestShowHasTheResultsOfSiblings(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n), instant("weather", tool.ReadOnly, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`).And("weather",
			`{"text":"Oslo"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	r.restart()
	calls := r.transcript().Calls
	if len(calls) != 2 || calls[0].Call != p.Call || calls[0].Status != session.Pending ||
		calls[1].Settled != event.Done ||
		string(calls[1].Output) != string(text("Oslo")) {
		t.Errorf("its calls are %+v", calls)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	if calls := r.transcript().Calls; len(calls) != 0 {
		t.Errorf("no turn is open, and its calls are %+v", calls)
	}
}

// What is shown of a session and of a call has a JSON form without Go's names
// in it, and comes back from it as it was.
func TestShownAsJSON(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	same(t, r.transcript(), `"id":"chat-1"`, `"user":`, `"finish":"paused"`,
		`"history":[{"role":"user"`, `"pending":[{"id":`)
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
	must(t, err)
	call := func() runner.CallDetails { return must2(r.Call(t.Context(), chat, p.Call, user)) }
	same(t, call(), `"tool":"deploy"`, `"status":"answered"`, `"pauses":1`, `"receipts":[{`)
	r.carryOn()
	same(t, call(), `"settled":"done"`, `"output":{"text":"v2"}`, `"at":`)
}

func same[T any](t *testing.T, v T, has ...string) {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	for _, s := range has {
		if !strings.Contains(string(b), s) {
			t.Errorf("no %s in %s", s, b)
		}
	}
	var again T
	must(t, json.Unmarshal(b, &again))
	if diff := cmp.Diff(v, again); diff != "" {
		t.Errorf("it comes back as another (-was +is):\n%s", diff)
	}
}
