package fermatatest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
	"github.com/fermata-ai/fermata/workflow"
)

// timeless is a tool of package wait whose results tell no times and no tokens:
// a lease that has to run out takes time, and histories are compared.
type timeless struct{ tool.Tool }

func (t timeless) Unwrap() tool.Tool { return t.Tool }

var times = regexp.MustCompile(`,"[A-Za-z]*(Ms|Time|token)":("[^"]*"|[0-9]+|null)`)

var after = regexp.MustCompile(`Timed out after [0-9]+ms`)

func (t timeless) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	exec, err := t.Tool.Execute(ctx, c)
	exec.Output = times.ReplaceAll(exec.Output, nil)
	exec.Output = after.ReplaceAll(exec.Output, []byte("Timed out"))
	if id := agentID.Find(exec.Output); id != nil && exec.Handle != nil { // it is made of the call's
		exec.Output = bytes.ReplaceAll(exec.Output, id, []byte("clerk"))
		exec.Handle.Name = "clerk"
	}
	if err != nil && ended.MatchString(err.Error()) {
		err = errors.New(ended.ReplaceAllString(err.Error(), ""))
	}
	return exec, err
}

var ended = regexp.MustCompile(` at [-0-9]+T[.:0-9]+Z`)

var agentID = regexp.MustCompile(`(agent|workflow)_clerk_[0-9a-f]{8}`)

// waiter is an agent that has the tools of a set, with those agents.
func waiter(model llm.Model, agents ...*agent.Agent) agent.Config {
	return waiterOf(model, wait.Config{Agents: agents})
}

// waiterOf is an agent that has the tools of a set.
func waiterOf(model llm.Model, of wait.Config) agent.Config {
	set, err := wait.New(of)
	if err != nil {
		panic(err)
	}
	c := agent.Config{Model: model}
	for _, t := range set.Tools() {
		c.Tools = append(c.Tools, timeless{t})
	}
	return c
}

func creates(id, kind string) (name, arguments string) {
	return "create_wait_handle", `{"handleId":"` + id + `","type":` + kind + `}`
}

// ends is the answer from outside to the n-th handle that was made.
func ends(n int, out string) fermatatest.Input {
	r := runner.Complete("", "web", json.RawMessage(out))
	if out == "" {
		r = runner.Fail("", "web", "It broke.", false)
	}
	return fermatatest.Answer("create_wait_handle", r).Below("create_wait_handle", n)
}

// waitScenarios are those of wait handles of a session.
func waitScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(name string, ag func() agent.Config, inputs ...fermatatest.Input) {
		all = append(all, fermatatest.Scenario{Name: name, World: family(ag),
			Inputs: append([]fermatatest.Input{hello}, inputs...)})
	}
	waitFor := func(id, rest string) fakellm.Turn {
		return fakellm.Calls("wait_for", `{"handleId":"`+id+`"`+rest+`}`)
	}

	add("two waiters and one completion", func() agent.Config {
		return waiter(fakellm.New(fakellm.Calls(creates("a", `"hook"`)),
			waitFor("a", ``).And("wait_for_multiple", `{"handleIds":["a"],"mode":"any"}`),
			fakellm.Says("Both."), fakellm.Says("Welcome.")))
	}, ends(1, `{"n":1}`), thanks)

	// The handle's own call waits by then: an answer that comes first is another
	// history.
	add("ended by calls", func() agent.Config {
		return waiter(fakellm.New(
			fakellm.Calls(creates("a", `"custom"`)).And("sleep", `{"durationMs":60000}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","result":7}`).
				And("complete_wait_handle", `{"handleId":"a","result":8}`),
			waitFor("a", ``).And("list_wait_handles", `{}`), fakellm.Says("Done.")))
	}, fermatatest.Pass(2*time.Minute))

	add("a timer, and a sleep", func() agent.Config {
		return waiter(fakellm.New(fakellm.Calls(creates("t", `"timer","timeoutMs":60000`)).
			And("sleep", `{"durationMs":90000}`), waitFor("t", ``), fakellm.Says("Done.")))
	}, fermatatest.Pass(2*time.Minute))

	add("an impatient waiter", func() agent.Config {
		return waiter(fakellm.New(fakellm.Calls(creates("a", `"custom"`)),
			waitFor("a", `,"timeoutMs":60000`), waitFor("a", ``), fakellm.Says("Done.")))
	}, fermatatest.Pass(2*time.Minute), ends(1, `"late"`))

	add("an impatient waiter that ends its handle", func() agent.Config {
		return waiterOf(fakellm.New(fakellm.Calls(creates("a", `"custom"`)),
			waitFor("a", `,"timeoutMs":60000`), waitFor("a", ``), fakellm.Says("Done.")),
			wait.Config{TimeoutEnds: true})
	}, fermatatest.Pass(2*time.Minute))

	add("the first success", func() agent.Config {
		turn := fakellm.Calls(creates("a", `"custom"`)).And(creates("b", `"hook"`)).
			And(creates("c", `"custom"`))
		return waiter(fakellm.New(turn,
			fakellm.Calls("wait_for_multiple", `{"handleIds":["a","b","c"],"mode":"any"}`),
			fakellm.Says("Done.")))
	}, ends(2, ``), ends(3, `"good"`))

	add("an agent beside", func() agent.Config {
		clerk, err := agent.New(agent.Config{Name: "clerk", Model: fakellm.New(
			fakellm.Calls("ask", `{"text":"which"}`), fakellm.Says("It is room 7.")),
			Tools: []tool.Tool{asking("ask", tool.Idempotent)}})
		if err != nil {
			panic(err)
		}
		return waiter(fakellm.New(
			fakellm.Calls("execute_agent_async", `{"agentId":"clerk","prompt":"Find a room."}`),
			waitFor("clerk", ``), fakellm.Says("Done.")), clerk)
	}, answered("7").Below("execute_agent_async", 1).Below("execute_agent_async", 1))

	add("a workflow beside", func() agent.Config {
		set, err := workflow.NewSet("lists", []tool.Tool{instant("note", tool.Idempotent),
			asking("ask", tool.Idempotent)}, nil)
		if err != nil {
			panic(err)
		}
		return waiterOf(fakellm.New(
			fakellm.Calls("execute_workflow_async", `{"workflowId":"clerk","name":"w","steps":[
				{"name":"a","tool":"note","arguments":{"text":"x"}},
				{"name":"b","tool":"ask","arguments":{"text":{"from":"/steps/a/text"}}}]}`),
			waitFor("clerk", ``), fakellm.Says("Done.")), wait.Config{Workflows: set})
	}, answered("7").Below("execute_workflow_async", 1).Below("execute_workflow_async", 1).
		Below("workflow_step", 2))
	return all
}

func TestKilledAmongWaits(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(false), eachNth(2, waitScenarios())...)
}

func TestKilledTwiceAmongWaits(t *testing.T) {
	t.Parallel()
	killed(t, .3, inMemory(true), eachNth(4, waitScenarios())...)
}

// On bbolt, whose files are written for real.
func TestKilledAmongWaitsOfAFile(t *testing.T) {
	t.Parallel()
	killed(t, .2, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, eachNth(6, waitScenarios())...)
}
