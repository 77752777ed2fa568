package fermatatest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// yard is an outside system in which the clerks of a family begin jobs. Each is
// called off once the call that began it is ended from above.
type yard struct {
	mu      sync.Mutex
	begun   map[string]bool // by the key of the entry
	stopped map[string]int
}

// build begins a job and waits for it, an hour at most.
func (y *yard) build(e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: "build", Effect: e, MayPause: true, Cancel: tool.Cancel{Do: y.stop}},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			y.mu.Lock()
			defer y.mu.Unlock()
			y.begun[tool.CallFrom(ctx).IdempotencyKey()] = true
			return tool.Pending[textOut](tool.Await{Key: in.Text}), nil
		})
}

// stop fails at the first try.
func (y *yard) stop(_ context.Context, c tool.Cancelled) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if c.Try == 1 {
		return errors.New("no answer")
	}
	y.stopped[c.Call.IdempotencyKey()]++
	return nil
}

// check returns what was not called off. Of a tool of effect once, a call may be
// lost that has begun its job: that one is unknown, and must not be called off.
func (y *yard) check(e tool.Effect) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	for key := range y.begun {
		if y.stopped[key] == 0 && e == tool.Idempotent {
			return fmt.Errorf("the job %s was not called off", key)
		}
	}
	return nil
}

// builders has a lead work, who has a clerk work, who begins a job and asks a
// person. Beside the lead another clerk does so. What asks is never lost, so that
// each clerk waits.
func builders(e tool.Effect) func() fermatatest.World {
	return func() fermatatest.World {
		y := &yard{begun: map[string]bool{}, stopped: map[string]int{}}
		clerk := func(name string) tool.Tool {
			return nested(name, fakellm.New(
				fakellm.Calls("build", `{"text":"job"}`).And("ask", `{"text":"why"}`),
				fakellm.Says("It is built.")), y.build(e), asking("ask", tool.Idempotent))
		}
		w := family(func() agent.Config {
			lead := nested("lead", fakellm.New(
				fakellm.Calls("clerk", `{"text":"Build."}`), fakellm.Says("Built.")),
				clerk("clerk"))
			return agent.Config{Tools: []tool.Tool{lead, clerk("mate")}, Model: fakellm.New(
				fakellm.Calls("lead", `{"text":"Build."}`).And("mate", `{"text":"Build, too."}`),
				fakellm.Says("All is over."), fakellm.Says("Welcome."))}
		})()
		w.Check = func() error { return y.check(e) }
		return w
	}
}

// endScenarios are those in which what waits in a family is ended from above.
func endScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(name string, inputs ...fermatatest.Input) {
		inputs = append([]fermatatest.Input{hello}, inputs...)
		some := each(name, func(tool.Effect) agent.Config { return agent.Config{} }, inputs...)
		for i, e := range []tool.Effect{tool.Once, tool.Idempotent} {
			some[i].World = builders(e)
		}
		all = append(all, some...)
	}
	cancelled := fermatatest.CancelSession("never mind")

	add("a family that is cancelled", cancelled, thanks)
	add("a family that is deleted", fermatatest.Delete())
	add("calls of agents that are cancelled", fermatatest.Cancel("lead", "no"),
		fermatatest.Cancel("mate", "no"), thanks)
	add("a clerk's session that is cancelled",
		fermatatest.CancelSession("no").Below("lead", 1).Below("clerk", 1),
		fermatatest.Cancel("build", "no").Below("mate", 1),
		answered("so").Below("mate", 1))
	add("a clerk's session that is deleted",
		fermatatest.Delete().Below("lead", 1).Below("clerk", 1),
		fermatatest.Delete().Below("mate", 1))
	add("a family that is deleted and forgotten", fermatatest.Delete(),
		fermatatest.Pass(100*24*time.Hour), fermatatest.Sweep(session.Retention{}))
	add("a family that outlives its retention", cancelled, fermatatest.Pass(48*time.Hour),
		fermatatest.Sweep(session.Retention{Sessions: 24 * time.Hour}))
	add("a family that is cancelled and deleted", cancelled.Undriven(), fermatatest.Delete())
	return all
}

func TestKilledAmongEndsOfChildren(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(false), eachNth(5, endScenarios())...)
}

func TestKilledTwiceAmongEndsOfChildren(t *testing.T) {
	t.Parallel()
	killed(t, .3, inMemory(true), eachNth(9, endScenarios())...)
}

// handing hands the conversation over to another agent, that one has a clerk
// work, and hands it back.
func handing(e tool.Effect) func() fermatatest.World {
	to := func(name string) tool.Tool {
		t, err := agenttool.Handoff(name, nil)
		if err != nil {
			panic(err)
		}
		return t
	}
	return func() fermatatest.World {
		w := family(func() agent.Config {
			return agent.Config{Tools: []tool.Tool{to("billing"), instant("note", e)},
				Model: fakellm.New(
					fakellm.Calls("note", `{"text":"money"}`).And("transfer_to_billing", `{}`),
					fakellm.Says("-"), fakellm.Says("-"), fakellm.Says("Back again."),
					fakellm.Says("Welcome."))}
		})()
		w.Others = func() []agent.Config {
			clerk := nested("clerk", fakellm.New(
				fakellm.Calls("ask", `{"text":"how much"}`), fakellm.Says("Ten.")), asking("ask", e))
			return []agent.Config{{Name: "billing", Tools: []tool.Tool{clerk, to("ops")},
				Model: fakellm.New(fakellm.Says("-"),
					fakellm.Calls("clerk", `{"text":"Find out."}`),
					fakellm.Calls("transfer_to_ops", `{}`))}}
		}
		return w
	}
}

func handoffScenarios() []fermatatest.Scenario {
	all := each("handed over, and back", func(tool.Effect) agent.Config { return agent.Config{} },
		hello, answered("10").Below("clerk", 1), thanks)
	for i, e := range []tool.Effect{tool.Once, tool.Idempotent} {
		all[i].World = handing(e)
	}
	return all
}

func TestKilledAmongHandovers(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(false), handoffScenarios()...)
}

func TestKilledTwiceAmongHandovers(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(true), eachNth(2, handoffScenarios())...)
}
