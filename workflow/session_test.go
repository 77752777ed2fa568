package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
	"github.com/fermata-ai/fermata/workflow"
)

// two is a workflow whose second step begins once the first was answered. Its
// version goes with its second tool.
func two(t *testing.T, second tool.Tool, version string) *workflow.Workflow {
	return build(t, workflow.New("two").Version(version).
		Step("a", asks("ask"), args{"text": "?"}, nil).
		Step("b", second, args{"text": workflow.From("a", "/text")}, nil))
}

// The list is stored when the workflow begins. A deploy that changes it changes
// no workflow under way, and a step whose tool it has removed is parked until
// the tool is back.
func TestAStepThatADeployRemovedIsParked(t *testing.T) {
	was := two(t, echo("echo"), "1")
	r := newRig(t, was.Agent())
	r.begin(was, nil)
	now := two(t, echo("other"), "2")
	r.restart(now.Agent())
	r.answer("a", "x")
	got := r.carryOn()
	if got.end.Finish == event.FinishStop || got.end.Finish == event.FinishFailed {
		t.Fatalf("%+v, %v", got.end, got.err)
	}
	seen, err := r.Show(t.Context(), r.step("b").Session, ada)
	must(t, err)
	if len(seen.Parked) != 1 || seen.Parked[0].Tool != "echo" {
		t.Errorf("what is parked is %+v", seen.Parked)
	}
	r.restart(was.Agent())
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Work(ctx, &runner.WorkOptions{OnEvent: func(id string, ev event.Event, _ error) {
		if end, ok := ev.(event.End); ok && id == here && end.Finish == event.FinishStop {
			cancel()
		}
	}})
	if ctx.Err() == nil {
		t.Fatal(err)
	}
	if h := r.step("b"); string(h.Output) != `{"text":"x"}` {
		t.Errorf("%+v", h)
	}
	r.sound()
}

// The stored list has the names, the arguments and the version.
func TestTheListIsStoredWithTheSession(t *testing.T) {
	w := two(t, echo("echo"), "7")
	r := newRig(t, w.Agent())
	r.begin(w, 1)
	seen, err := r.Show(t.Context(), here, ada)
	must(t, err)
	calls := seen.History[1].ToolCalls()
	var first struct{ List workflow.List }
	must(t, json.Unmarshal(calls[0].Arguments, &first))
	if got, want := first.List, w.List(); got.Version != "7" || len(got.Steps) != 2 ||
		string(got.Steps[1].Arguments) != string(want.Steps[1].Arguments) {
		t.Errorf("%+v", got)
	}
	r.sound()
}

// A workflow in a call has no limits but those of its list, and its steps count
// for nothing of its caller's, however few model calls and tool calls that one
// may make.
func TestLimitsFollowFromTheList(t *testing.T) {
	b := workflow.New("long")
	const n = 66 // more than an agent's model calls
	for i := range n {
		var o workflow.StepOptions
		if i > 0 {
			o.After = []string{fmt.Sprint("s", i-1)}
		}
		b.Step(fmt.Sprint("s", i), tools.echo, args{"text": "x"}, &o)
	}
	w := build(t, b.Output(workflow.From("s65", "")))
	long, err := workflow.Tool[in, out](w, nil)
	must(t, err)
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{long},
		Model:  fakellm.New(fakellm.Calls("long", `{}`), fakellm.Says("Done.")),
		Limits: agent.Limits{Turns: 2, ToolCalls: 1}})
	must(t, err)
	r := newRig(t, ag)
	if got := r.say(llm.UserText("Go.")); got.end.Finish != event.FinishStop || got.text != "Done." {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	if got := r.result(2); got.Error || string(got.Output) != `{"text":"x"}` {
		t.Errorf("the workflow came to %s", got.Output)
	}
	r.sound()
}

// result is the first result in a message of the session.
func (r *rig) result(message int) llm.ToolResult {
	r.t.Helper()
	seen, err := r.Show(r.t.Context(), here, ada)
	must(r.t, err)
	return seen.History[message].Parts[0].(llm.ToolResult)
}

var tools = struct{ echo tool.Tool }{echo("echo")}

// Tokens that an agent in a step uses are its caller's.
func TestTokensCountForWhoBeganTheWorkflow(t *testing.T) {
	inner, err := agent.New(agent.Config{Name: "inner",
		Model: fakellm.New(fakellm.Says("Hello.").Usage(llm.Usage{Input: 700}))})
	must(t, err)
	asked, err := agenttool.New[in, string](inner, nil)
	must(t, err)
	w := build(t, workflow.New("costs").Step("a", asked, args{"text": "x"}, nil).
		Output(workflow.From("a", "")))
	costs, err := workflow.Tool[in, string](w, nil)
	must(t, err)
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{costs},
		Model:  fakellm.New(fakellm.Calls("costs", `{}`).And("costs", `{}`), fakellm.Says("Done.")),
		Limits: agent.Limits{Tokens: 1000}, Concurrency: 1})
	must(t, err)
	r := newRig(t, ag)
	got := r.say(llm.UserText("Go."))
	if got.end.Finish != event.FinishMaxTokens || got.end.Usage.Input < 1400 {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	r.sound()
}

// More steps than a turn has calls are begun all the same, before any is waited
// for.
func TestManyStepsBeginAtOnce(t *testing.T) {
	const n = 70
	var now atomic.Int32
	all := make(chan struct{})
	meet := fn("meet", func(ctx context.Context, _ in) (out, error) {
		if now.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			return out{}, ctx.Err()
		}
		return out{"met"}, nil
	})
	b := workflow.New("wide")
	for i := range n {
		b.Step(fmt.Sprint("s", i), meet, nil, nil)
	}
	w := build(t, b)
	r := newRig(t, w.Agent())
	if got := r.begin(w, nil); got.end.Finish != event.FinishStop ||
		strings.Count(got.text, "met") != n {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	r.sound()
}

// A person approves a step, and none of the workflow's own calls.
func TestALayerSeesStepsAlone(t *testing.T) {
	w, err := workflow.New("gated").Step("a", echo("echo"), args{"text": "x"}, nil).
		Build(&workflow.Options{Interceptors: interceptor.Chain{interceptor.Approval(nil)}})
	must(t, err)
	r := newRig(t, w.Agent())
	got := r.begin(w, nil)
	if len(got.end.Pending) != 2 || got.end.Pending[1].Tool != "echo" {
		t.Fatalf("%+v", got.end)
	}
	p := got.end.Pending[1]
	_, err = r.Resume(t.Context(), p.Session, runner.Approve(p.ID, ada, "fine"))
	must(t, err)
	if got := r.carryOn(); got.end.Finish != event.FinishStop {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	r.sound()
}

// A workflow that is cancelled ends with its steps.
func TestACancelledWorkflowEndsItsSteps(t *testing.T) {
	w := two(t, echo("echo"), "1")
	r := newRig(t, w.Agent())
	r.begin(w, nil)
	must(t, r.CancelSession(t.Context(), here, ada, "no more"))
	_, err := r.Await(t.Context(), here, tool.HandleWait{All: []string{"a"}}, ada)
	must(t, err)
	if h := r.step("a"); h.Status != "cancelled" {
		t.Errorf("%+v", h)
	}
	r.sound()
}

// What begins a session of a workflow's agent, and is no input, fails.
func TestAWorkflowNeedsItsInput(t *testing.T) {
	w := two(t, echo("echo"), "1")
	set, err := workflow.NewSet("set", []tool.Tool{echo("echo")}, nil)
	must(t, err)
	for _, ag := range []*agent.Agent{w.Agent(), set.Agent()} {
		r := newRig(t, ag)
		if got := r.say(llm.UserText("Hello.")); got.end.Finish != event.FinishFailed {
			t.Errorf("%+v, %v", got.end, got.err)
		}
		r.sound()
	}
}

// A set carries out a list that comes from outside.
func TestASetCarriesOutLists(t *testing.T) {
	set, err := workflow.NewSet("set", []tool.Tool{echo("echo")}, nil)
	must(t, err)
	l, err := workflow.ParseList([]byte(`{"name":"given","steps":[
		{"name":"a","tool":"echo","arguments":{"text":{"from":"/input/x"}}},
		{"name":"b","tool":"echo","arguments":{"text":{"from":"/steps/a/text"}}}],
		"output":{"from":"/steps/b/text"}}`))
	must(t, err)
	m, err := set.Message(l, json.RawMessage(`{"x":"1 < 2"}`))
	must(t, err)
	r := newRig(t, set.Agent())
	if got := r.say(m); got.text != "1 < 2" {
		t.Errorf("%+v, %v: %s", got.end, got.err, got.text)
	}
	r.sound()
}

// A call of a workflow comes to a value of any type.
func TestAWorkflowComesToAnyType(t *testing.T) {
	b := func() *workflow.Builder {
		return workflow.New("w").Step("a", tools.echo, args{"text": workflow.Input("/text")}, nil)
	}
	list, err := workflow.Tool[in, []string](build(t, b().Output([]any{workflow.From("a", "/text")})),
		&workflow.ToolOptions{Name: "list"})
	must(t, err)
	text, err := workflow.Tool[in, string](build(t, b().Output(workflow.From("a", "/text"))),
		&workflow.ToolOptions{Name: "text"})
	must(t, err)
	for name, of := range map[string]struct {
		made tool.Tool
		want string
	}{"list": {list, `["5"]`}, "text": {text, `"5"`}} {
		ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{of.made},
			Model: fakellm.New(fakellm.Calls(name, `{"text":"5"}`), fakellm.Says("Done."))})
		must(t, err)
		r := newRig(t, ag)
		r.say(llm.UserText("Go."))
		if got := r.result(2); string(got.Output) != of.want {
			t.Errorf("%s comes to %s", name, got.Output)
		}
		r.sound()
	}
}

// What a step came to is kept as long as its workflow goes on, however old it is.
func TestOutputsOutliveTheirRetentionInAWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := build(t, workflow.New("slow").
			Step("early", tools.echo, args{"text": "kept"}, nil).
			Step("wait", asks("ask"), args{"text": "?"}, nil).
			Step("late", tools.echo, args{"text": workflow.From("early", "/text")},
				&workflow.StepOptions{After: []string{"wait"}}).
			Output(workflow.From("late", "/text")))
		r := newRig(t, w.Agent())
		r.begin(w, nil)
		time.Sleep(100 * 24 * time.Hour)
		_, err := r.store.Sweep(t.Context(), &session.Retention{Handles: time.Hour, Receipts: time.Hour})
		must(t, err)
		r.answer("wait", "now")
		if got := r.carryOn(); got.text != "kept" {
			t.Errorf("%+v, %v: %s", got.end, got.err, got.text)
		}
		r.sound()
	})
}

// An agent in a step has limits of its own, however few calls those have left
// that stand above its workflow.
func TestAgentsInStepsHaveTheirOwnLimits(t *testing.T) {
	call := fakellm.Calls("echo", `{"text":"x"}`)
	ask := func(name string, m llm.Model, turns int, of ...tool.Tool) tool.Tool {
		ag, err := agent.New(agent.Config{Name: name, Model: m, Tools: of,
			Limits: agent.Limits{Turns: turns}})
		must(t, err)
		asked, err := agenttool.New[in, string](ag, nil)
		must(t, err)
		return asked
	}
	inner := ask("inner", fakellm.New(call, call, call, fakellm.Says("Found.")), 4, tools.echo)
	w := build(t, workflow.New("list").Step("a", inner, args{"text": "x"}, nil).
		Step("b", inner, args{"text": workflow.From("a", "")}, nil).Output(workflow.From("b", "")))
	list, err := workflow.Tool[in, string](w, nil)
	must(t, err)
	middle := ask("middle", fakellm.New(fakellm.Calls("list", `{}`),
		fakellm.From(func(r llm.Request) fakellm.Turn {
			return fakellm.Says(string(r.Messages[2].Parts[0].(llm.ToolResult).Output))
		})), 3, list)
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{middle},
		Model:  fakellm.New(fakellm.Calls("middle", `{"text":"x"}`), fakellm.Says("Done.")),
		Limits: agent.Limits{Turns: 4}})
	must(t, err)
	r := newRig(t, ag)
	if got := r.say(llm.UserText("Go.")); got.text != "Done." {
		t.Errorf("%+v, %v", got.end, got.err)
	}
	if got := r.result(2); string(got.Output) != `"\"Found.\""` {
		t.Errorf("the workflow came to %s", got.Output)
	}
	r.sound()
}
