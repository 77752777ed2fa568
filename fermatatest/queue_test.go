package fermatatest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// queueScenarios are those of messages that wait: one that steers, one that
// answers a question which comes later, one that supersedes, and those behind
// them.
func queueScenarios() []fermatatest.Scenario {
	sent := func(id string, while runner.While) fermatatest.Input {
		return fermatatest.Send(id, "This is "+id+".", while).Undriven()
	}
	question := func(e tool.Effect) agent.Config {
		ask := tool.Must(tool.Func(tool.Spec{Name: "ask", Effect: e, MayPause: true},
			func(context.Context, textIn) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{Reason: tool.ReasonInput,
					Mode: tool.ModeMessage}), nil
			}))
		return agent.Config{Tools: []tool.Tool{ask, instant("work", e)},
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`),
				fakellm.Calls("ask", `{"text":"a"}`), fakellm.Says("I see."),
				fakellm.Says("Well."), fakellm.Says("Done."))}
	}
	form := func(e tool.Effect) agent.Config {
		c := question(e)
		c.Tools[0] = tool.Must(tool.Func(tool.Spec{Name: "ask", Effect: e, MayPause: true},
			func(context.Context, textIn) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{Reason: tool.ReasonInput}), nil
			}))
		return c
	}
	var all []fermatatest.Scenario
	all = append(all, each("steering, and an answer", question, sent("m1", ""),
		sent("m2", ""), sent("m3", runner.WhileSteer), sent("m4", ""),
		fermatatest.Send("m5", "This is m5.", ""))...)
	all = append(all, each("superseding", form, sent("m1", ""),
		sent("m2", ""), fermatatest.Send("m3", "This is m3.", ""),
		fermatatest.Send("m4", "This is m4.", runner.WhileSupersede))...)
	// A call of effect once that is lost never comes to wait, so that a message
	// meets something else than in the uncut history.
	return slices.DeleteFunc(all, func(s fermatatest.Scenario) bool {
		return strings.HasSuffix(s.Name, ", once")
	})
}

// Killed at every write, no message that waits is lost, and none is said twice.
func TestKilledWhileMessagesWait(t *testing.T) {
	killed(t, .1, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())},
	}, queueScenarios()...)
}
