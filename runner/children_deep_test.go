package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// repeats is a model that calls a tool once, as it was told, and then says what
// came of it.
func repeats(toolName string) llm.Model {
	return fakellm.New(
		fakellm.From(func(r llm.Request) fakellm.Turn {
			what, _ := json.Marshal(task{fakellm.LastUserText(r)})
			return fakellm.Calls(toolName, string(what))
		}),
		fakellm.From(func(r llm.Request) fakellm.Turn {
			last := r.Messages[len(r.Messages)-1]
			return fakellm.Says(fmt.Sprint(string(last.Parts[0].(llm.ToolResult).Output)))
		}))
}

// asksWhat is a tool that asks a person what it was given.
func asksWhat(name string) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, MayPause: true},
		func(_ context.Context, in task) (tool.Result[string], error) {
			return tool.NeedInput[string](in.What), nil
		}))
}

// pausesBelow lists the pauses that people answer by what they ask.
func pausesBelow(t *testing.T, s *seen) map[string]tool.Pause {
	t.Helper()
	all := map[string]tool.Pause{}
	for _, p := range s.end.Pending {
		if p.Await.Reason == tool.ReasonInput {
			all[p.Await.Prompt] = p
		}
	}
	return all
}

// answerBelow answers a pause of a child, and carries the tree on.
func answerBelow(t *testing.T, rn *runner.Runner, p tool.Pause, with string) *seen {
	t.Helper()
	value, _ := json.Marshal(with)
	res, err := rn.Resume(t.Context(), p.Session, runner.Complete(p.ID, "eve", value))
	must(t, err)
	return watch(t, res.Events(t.Context()))
}

// Three levels deep, two children of one name wait at once. Their questions are
// answered in reverse, each through its own pause and after a restart, and each
// answer is where it belongs.
func TestTwoOfOneNameThreeLevelsDeep(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			leaf := nestedTool(t, "leaf", repeats("ask"), asksWhat("ask"))
			middle := nestedTool(t, "middle", repeats("leaf"), leaf)
			r := newRig(t, agent.Config{Tools: []tool.Tool{middle}, Model: fakellm.New(
				fakellm.Calls("middle", `{"what":"A?"}`).And("middle", `{"what":"B?"}`),
				fakellm.Says("Both."))}, &rigOptions{memory: true, wrap: wrap})
			s := r.say("Go.").finished(event.FinishPaused)
			asked := pausesBelow(t, s)
			if len(asked) != 2 || len(asked["A?"].Path) != 2 || len(asked["B?"].Path) != 2 ||
				asked["A?"].Path[0].Session != chat || asked["A?"].Path[1].Agent != "middle" {
				t.Fatalf("these wait: %+v", s.end.Pending)
			}
			r.restart()
			answerBelow(t, r.Runner, asked["B?"], "bee").finished(event.FinishPaused)
			r.restart()
			s = answerBelow(t, r.Runner, asked["A?"], "ay").finished(event.FinishStop)
			if s.end.Session != chat {
				t.Errorf("the last event is of %s", s.end.Session)
			}
			got := r.outputs()
			if len(got) != 2 || !strings.Contains(got[0], "ay") || !strings.Contains(got[1], "bee") {
				t.Errorf("outputs are %q", got)
			}
			st, err := r.store.Load(t.Context(), chat)
			if must(t, err); st.Run.Turns != 2+4+4 || len(st.Run.Leaving) > 0 {
				t.Errorf("the run has used %+v", st.Run)
			}
			must(t, r.Close()) // what sessions owe each other is carried out by then
			r.sound()
		})
	}
}

// At Concurrency 1, a nested agent works beside a body that runs long, and
// waits, without a slot: the body ends only when the agent has worked.
func TestANestedAgentTakesNoSlot(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	quick := func(name string, done chan struct{}) tool.Tool {
		return nestedTool(t, name, fakellm.New(fakellm.From(func(llm.Request) fakellm.Turn {
			close(done)
			return fakellm.Says(name)
		})))
	}
	long := does(tool.Spec{Name: "long"},
		func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			for _, c := range []chan struct{}{first, second} {
				select {
				case <-c:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return tool.Done(textOut{"long"}), nil
		})
	r := newRig(t, agent.Config{Concurrency: 1,
		Tools: []tool.Tool{long, quick("one", first), quick("two", second)},
		Model: fakellm.New(
			fakellm.Calls("one", `{"what":"x"}`).And("long", `{"text":"x"}`).And("two", `{"what":"y"}`),
			fakellm.Says("Done."))}, &rigOptions{memory: true})
	r.say("Go.").finished(event.FinishStop)
	if got := r.outputs(); len(got) != 3 || got[0] != `"one"` || got[2] != `"two"` {
		t.Errorf("outputs are %q", got)
	}
	must(t, r.Close()) // what sessions owe each other is carried out by then
	r.sound()
}

// There are so many places for children and no more, and roots take turns: one
// child of one root doesn't wait for the many of another.
func TestPlacesOfChildrenAreBoundedAndFair(t *testing.T) {
	const many, room = 60, 3 // a turn has no more than 64 calls
	var at, most, done atomic.Int32
	var small atomic.Int32 // how many others had been driven when the small one's turn came
	gate := make(chan struct{})
	helper := nestedTool(t, "helper", fakellm.New(fakellm.From(func(q llm.Request) fakellm.Turn {
		n := at.Add(1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		<-gate
		if fakellm.LastUserText(q) == "small" {
			small.Store(done.Load())
		}
		done.Add(1)
		at.Add(-1)
		return fakellm.Says("ok")
	})))
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.From(func(q llm.Request) fakellm.Turn {
			if fakellm.LastUserText(q) == "small" {
				return fakellm.Calls("helper", `{"what":"small"}`)
			}
			var turn fakellm.Turn
			for range many {
				turn = turn.And("helper", `{"what":"x"}`)
			}
			return turn
		}), fakellm.Says("Done."))},
		&rigOptions{memory: true, runner: &runner.Options{Children: room}})
	big := r.begin("big")
	waitFor(t, func() bool {
		st, err := r.store.Load(t.Context(), chat)
		return err == nil && st.Open() == many
	})
	other := make(chan *seen, 1)
	go func() {
		other <- watch(t, r.Run(context.Background(), user, "chat-2", llm.UserText("small"), nil))
	}()
	waitFor(t, func() bool {
		st, err := r.store.Load(t.Context(), "chat-2")
		return err == nil && st.Open() == 1
	})
	close(gate)
	(<-other).finished(event.FinishStop)
	big().finished(event.FinishStop)
	if got := most.Load(); got > room {
		t.Errorf("%d children were driven at once, and there are %d places", got, room)
	}
	if got := small.Load(); got > 3*room {
		t.Errorf("the small root's child came after %d of the big one's", got)
	}
	must(t, r.Close()) // what sessions owe each other is carried out by then
	r.sound()
}

// waitFor waits until what other goroutines do has come to something.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it doesn't come to that")
		}
	}
}
