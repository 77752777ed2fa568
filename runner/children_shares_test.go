package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// notes is an agent's tool whose agent makes notes, five times, and is done. Each
// of its messages costs ten tokens.
func notes(t *testing.T, name string) (tool.Tool, *fakellm.Model) {
	t.Helper()
	return countedNotes(t, name, &counter{})
}

// countedNotes is notes that counts them.
func countedNotes(t *testing.T, name string, n *counter) (tool.Tool, *fakellm.Model) {
	t.Helper()
	note := tool.Must(tool.Func(tool.Spec{Name: "note", Effect: tool.ReadOnly},
		func(context.Context, struct{}) (tool.Result[string], error) {
			n.add("note")
			return tool.Done("noted"), nil
		}))
	costs := llm.Usage{Output: 10}
	turns := slices.Repeat([]fakellm.Turn{fakellm.Calls("note", `{}`).Usage(costs)}, 5)
	m := fakellm.New(append(turns, fakellm.Says("Noted.").Usage(costs))...)
	return nestedTool(t, name, m, note), m
}

// Four nested agents work side by side, or one after the other. Together they
// get what their caller has left, and at most one model call more for each that
// had asked just then. Where all are driven one after the other, there is no
// such call.
func TestNestedAgentsShareWhatIsLeft(t *testing.T) {
	const all = 4
	for name, c := range map[string]struct {
		limits agent.Limits
		asked  int // model calls, of the children together
		finish event.Finish
	}{
		"turns":    {agent.Limits{Turns: 9}, 8, event.FinishMaxTurns},
		"tokens":   {agent.Limits{Tokens: 80}, 8, event.FinishMaxTokens},
		"no limit": {agent.Limits{}, 24, event.FinishStop},
	} {
		for _, places := range []int{1, all} {
			t.Run(fmt.Sprint(name, ", places ", places), func(t *testing.T) {
				helper, m := notes(t, "helper")
				turn := fakellm.Turn{}
				for range all {
					turn = turn.And("helper", `{"what":"Note."}`)
				}
				r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Limits: c.limits,
					Model: fakellm.New(turn, fakellm.Says("Well."))},
					&rigOptions{memory: true, runner: &runner.Options{Children: places}})
				r.say("Go.").finished(c.finish)
				must(t, r.Close())
				most := c.asked
				if c.limits != (agent.Limits{}) {
					most += places - 1
				}
				if n := len(m.Requests()); n < c.asked || n > most {
					t.Errorf("their models were asked %d times, of %d to %d", n, c.asked, most)
				}
				st, err := r.store.Load(t.Context(), chat)
				must(t, err)
				if used := len(m.Requests()); st.Run.Turns < used || st.Run.Usage.Output != 10*used {
					t.Errorf("%d model calls count as %+v", used, st.Run)
				}
				r.sound()
			})
		}
	}
}

// The tool calls of agents side by side count together, too. With one place their
// models are called one after the other, but in any order, since one that waits
// for a tool leaves its place: either one is done and the other one is stopped, or
// both are. Then each has asked for a call more, which isn't made.
func TestNestedAgentsShareTheirToolCalls(t *testing.T) {
	var n counter
	helper, _ := countedNotes(t, "helper", &n)
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Limits: agent.Limits{ToolCalls: 9},
		Model: fakellm.New(fakellm.Calls("helper", `{"what":"a"}`).And("helper", `{"what":"b"}`),
			fakellm.Says("Well."))}, &rigOptions{memory: true, runner: &runner.Options{Children: 1}})
	r.say("Go.").finished(event.FinishStop)
	must(t, r.Close())
	got := r.outputs()
	stopped := 0
	for _, s := range got {
		if strings.Contains(s, "max_tool_calls") {
			stopped++
		} else if s != `"Noted."` {
			t.Errorf("one came to %q", s)
		}
	}
	if len(got) != 2 || stopped == 0 {
		t.Errorf("outputs are %q", got)
	}
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	if made := 2 + n.get("note"); made != 9 || st.Run.Calls != made+stopped {
		t.Errorf("%d calls were made, %d agents stopped, and %d calls count", made, stopped, st.Run.Calls)
	}
}

// What an agent two levels down uses counts for those beside the agent above it.
func TestAgentsOfAllLevelsShareWhatIsLeft(t *testing.T) {
	leaf, m := notes(t, "leaf")
	middle := nestedTool(t, "middle", fakellm.New(
		fakellm.Calls("leaf", `{"what":"a"}`).And("leaf", `{"what":"b"}`), fakellm.Says("Well.")), leaf)
	r := newRig(t, agent.Config{Tools: []tool.Tool{middle}, Limits: agent.Limits{Turns: 8},
		Model: fakellm.New(fakellm.Calls("middle", `{"what":"x"}`).And("middle", `{"what":"y"}`),
			fakellm.Says("Well."))}, &rigOptions{memory: true, runner: &runner.Options{Children: 1}})
	r.say("Go.").finished(event.FinishMaxTurns)
	must(t, r.Close())
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	// One of the root, at least one of each in the middle, and what is left.
	if n := len(m.Requests()); n < 5 || n > 7 || st.Run.Turns > 10 {
		t.Errorf("the leaves' models were asked %d times, and %d turns count", n, st.Run.Turns)
	}
}
