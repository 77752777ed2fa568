package fermatatest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// carried has an agent that hands an order to a workflow.
func carried(b *workflow.Builder) agent.Config {
	w, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return agent.Config{Tools: []tool.Tool{tool.Must(workflow.Tool[textIn, textOut](w, nil))},
		Model: fakellm.New(fakellm.Calls("fulfil", `{"text":"7"}`), fakellm.Says("Done."),
			fakellm.Says("Welcome."))}
}

type args = map[string]any

// five are the steps of an order: two people are asked beside each other.
func five(e tool.Effect) agent.Config {
	note, ask := instant("note", e), asking("ask", e)
	text := func(step string) args { return args{"text": workflow.From(step, "/text")} }
	return carried(workflow.New("fulfil").
		Step("order", note, args{"text": workflow.Input("/text")}, nil).
		Step("pick", ask, text("order"), nil).
		Step("pay", ask, text("order"), nil).
		Step("ship", note, text("pick"), &workflow.StepOptions{After: []string{"pay"}}).
		Step("tell", note, text("ship"), nil).
		Output(workflow.From("tell", "")))
}

// taken is an order that fails, and is taken back.
func taken(e tool.Effect) agent.Config {
	note, ask := instant("note", e), asking("ask", e)
	back := func(by string, after ...string) *workflow.StepOptions {
		return &workflow.StepOptions{Compensate: by, After: after}
	}
	return carried(workflow.New("fulfil").
		Step("flight", note, args{"text": "flight"}, back("flight-back")).
		Step("hotel", note, args{"text": "hotel"}, back("hotel-back", "flight")).
		Step("pay", ask, args{"text": workflow.From("hotel", "/text")}, nil).
		Step("flight-back", note, args{"text": workflow.From("flight", "/text")}, nil).
		Step("hotel-back", note, args{"text": workflow.From("hotel", "/text")}, nil))
}

// tried is a step that fails and is begun again, after a while and until it is
// taken for good.
func tried(e tool.Effect) agent.Config {
	broken := fn(tool.Spec{Name: "try", Effect: e},
		func(context.Context, textIn) (tool.Result[textOut], error) { return nil, errors.New("broken") })
	return carried(workflow.New("fulfil").
		Step("a", broken, args{"text": "x"}, &workflow.StepOptions{
			OnFailure: workflow.ContinueOnFailure, Retry: &workflow.Retry{Times: 1}}).
		Step("b", instant("note", e), args{"text": "y"}, &workflow.StepOptions{After: []string{"a"}}).
		Output(workflow.From("b", "")))
}

func workflowScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(name string, ag func(tool.Effect) agent.Config, inputs ...fermatatest.Input) {
		s := bothEffects(name, ag, append([]fermatatest.Input{hello}, inputs...)...)
		s[0].Diverges = true // a step whose outcome is unknown ends its workflow
		all = append(all, s...)
	}
	step := func(in fermatatest.Input, n int) fermatatest.Input {
		return in.Below("fulfil", 1).Below("workflow_step", n)
	}
	add("five steps", five, step(answered("paid"), 3), step(answered("picked"), 2), thanks)
	add("taken back", taken, step(fermatatest.Answer("ask",
		runner.Fail("", "ada", "no money", false)), 3), thanks)
	add("tried again", tried, thanks)
	return all
}

// A workflow of five steps is killed at every write.
func TestKilledAmongWorkflows(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(false), eachNth(3, workflowScenarios())...)
}

func TestKilledTwiceAmongWorkflows(t *testing.T) {
	t.Parallel()
	killed(t, .3, fermatatest.Options{Twice: true, Every: 4,
		Engines: []fermatatest.Engine{fermatatest.Memory()}}, eachNth(6, workflowScenarios())...)
}
