package fleet

import (
	"log/slog"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
	"github.com/fermata-ai/fermata/tool/wait"
	"github.com/fermata-ai/fermata/workflow"
)

// Tools that have no body of the fleet's. What they have done is told by their
// output.
const (
	nestedTool   = "team"     // another agent, by one call of ship
	workflowTool = "trip"     // a workflow, by calls of look, put and wire
	waitTool     = "wait_for" // the user's wait handle
)

// script is what the model of each session calls, turn by turn.
var script = [][]string{
	{"pay", "wire", "look", "put"},
	{"ship", "batch", "refund", "nap", "gather", "drill", nestedTool, workflowTool, waitTool},
	{"ask"},
}

// perSession is how many calls a session makes itself.
func perSession() (n int) {
	for _, turn := range script {
		n += len(turn)
	}
	return n
}

// newRunner returns a runner of the agent, whose sessions each follow the
// script, of one that ticks, and of the one whose sessions are schedules.
func newRunner(store *session.Store, o *outside) (*runner.Runner, error) {
	tools, err := o.tools()
	if err != nil {
		return nil, err
	}
	var turns []fakellm.Turn
	for _, names := range script {
		turn := fakellm.Calls(names[0], argumentsOf(names[0]))
		for _, name := range names[1:] {
			turn = turn.And(name, argumentsOf(name))
		}
		turns = append(turns, turn)
	}
	ag, err := agent.New(agent.Config{
		Name: "fleet", Tools: tools,
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}})},
		Model: fakellm.New(append(turns, fakellm.Says("Done."))...),
	})
	if err != nil {
		return nil, err
	}
	tick, err := o.permitted(tickTool)
	if err != nil {
		return nil, err
	}
	clock, err := agent.New(agent.Config{Name: tickTool, Tools: []tool.Tool{tick},
		Model: fakellm.New(fakellm.Calls(tickTool, `{}`), fakellm.Says("Tock."))})
	if err != nil {
		return nil, err
	}
	keeper, err := agent.New(schedule.Agent())
	if err != nil {
		return nil, err
	}
	return runner.New(ag, store, &runner.Options{
		Logger: slog.New(slog.NewTextHandler(o.log, nil)), CloseTimeout: time.Second,
		CancelGrace: time.Second, Agents: []*agent.Agent{clock, keeper},
	})
}

func argumentsOf(name string) string {
	if name == waitTool {
		return `{"handleId":"` + userWait + `"}`
	}
	return `{}`
}

// tools are all that the script calls.
func (o *outside) tools() (all []tool.Tool, err error) {
	for name := range kinds {
		t, err := o.permitted(name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	waits, err := wait.New(wait.Config{Scope: tool.UserScope})
	if err != nil {
		return nil, err
	}
	team, err := o.team()
	if err != nil {
		return nil, err
	}
	trip, err := o.trip()
	if err != nil {
		return nil, err
	}
	return append(append(all, waits.Tools()...), team, trip), nil
}

// permitted is a tool, whose calls hold the permit if its kind tells so.
func (o *outside) permitted(name string) (tool.Tool, error) {
	t, k := o.tool(name, kinds[name]), kinds[name]
	if !k.permit {
		return t, nil
	}
	return wait.WithPermit(t, wait.PermitOptions{Scope: permits.Scope, Handle: permits.ID, Most: 1})
}

func (o *outside) team() (tool.Tool, error) {
	helper, err := agent.New(agent.Config{
		Name: "helper", Tools: []tool.Tool{o.tool("ship", kinds["ship"])},
		Model: fakellm.New(fakellm.Calls("ship", `{}`), fakellm.Says("Shipped.")),
	})
	if err != nil {
		return nil, err
	}
	return agenttool.New[in, string](helper, &agenttool.Options[in]{Name: nestedTool})
}

// trip is two steps one after the other, and one beside them.
func (o *outside) trip() (tool.Tool, error) {
	step := func(name string) tool.Tool { return o.tool(name, kinds[name]) }
	w, err := workflow.New(workflowTool).
		Step("find", step("look"), in{}, nil).
		Step("keep", step("put"), in{}, &workflow.StepOptions{After: []string{"find"}}).
		Step("send", step("wire"), in{}, nil).
		Output(workflow.From("keep", "")).
		Build(nil)
	if err != nil {
		return nil, err
	}
	return workflow.Tool[in, out](w, nil)
}

// What the calls of these tools come to.
const (
	doneByAgent    = `"Shipped."`
	doneByWorkflow = `{"n":1}`
)

// shape is what a session has that is over: messages of its user, and calls, -1
// being any number. A step's has no more than its call, which is told to no
// model.
type shape struct {
	messages, calls int
	step            bool
}

// below is how many sessions there are below each: the helper's, the
// workflow's, and those of its steps.
const below = 5

// shapeOf returns that of a session which is over.
func shapeOf(s runner.Session) shape {
	switch {
	case s.Agent == tickTool:
		return shape{messages: 1, calls: 1}
	case len(s.Path) == 0:
		return shape{messages: 1, calls: perSession()}
	case s.Agent == workflowTool && len(s.Path) == 1:
		return shape{messages: 1, calls: -1}
	case s.Agent == workflowTool:
		return shape{calls: 1, step: true}
	}
	return shape{messages: 1, calls: 1}
}
