package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// A nested agent gets what its caller has left, and no more. What it has used
// is its caller's.
func TestANestedAgentGetsWhatItsCallerHasLeft(t *testing.T) {
	note := tool.Must(tool.Func(tool.Spec{Name: "note", Effect: tool.ReadOnly},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Done("noted"), nil
		}))
	endless := fakellm.New(fakellm.Calls("note", `{}`), fakellm.Calls("note", `{}`),
		fakellm.Calls("note", `{}`), fakellm.Says("Never."))
	helper := nestedTool(t, "helper", endless, note)
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Limits: agent.Limits{Turns: 3},
		Model: fakellm.New(fakellm.Calls("helper", `{"what":"Note."}`), fakellm.Says("Well."))}, nil)
	s := r.say("Go.")
	if s.end.Finish != event.FinishMaxTurns {
		t.Errorf("%+v, %v", s.end, s.err)
	}
	must(t, r.Close())
	if got := r.outputs(); len(got) != 1 || !strings.Contains(got[0], "used up its limit (max_turns)") {
		t.Errorf("outputs are %q", got)
	}
	if n := len(endless.Requests()); n != 2 {
		t.Errorf("its model was asked %d times, of 2 that were left", n)
	}
}

// A worker of the same program leaves a session to the caller who follows its
// children: that one goes on with it.
func TestAWorkerLeavesASessionToItsFollower(t *testing.T) {
	helper := nestedTool(t, "helper", fakellm.New(fakellm.Says("It is 42.")))
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I know."))},
		&rigOptions{memory: true})
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		_ = r.Work(ctx, &runner.WorkOptions{Poll: time.Millisecond})
	}()
	defer func() { cancel(); <-worked }()
	for i := range 100 {
		s := watch(t, r.Run(t.Context(), user, fmt.Sprint("chat-", i), llm.UserText("Go."), nil))
		if s.end.Finish != event.FinishStop {
			t.Fatalf("run %d ends %q, with %v", i, s.end.Finish, s.err)
		}
	}
}

// A child may be over before the drive that made it has given its session up.
// Its caller's run goes on all the same.
func TestARunGoesOnHoweverFastItsChildIs(t *testing.T) {
	helper := nestedTool(t, "helper", fakellm.New(fakellm.Says("It is 42.")))
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I know."))},
		&rigOptions{memory: true})
	var runs sync.WaitGroup
	for i := range 8 {
		runs.Go(func() {
			for n := range testlength.Part(5, 100) {
				s := watch(t, r.Run(t.Context(), user, fmt.Sprint("chat-", i, "-", n),
					llm.UserText("Go."), nil))
				if s.end.Finish != event.FinishStop {
					t.Errorf("run %d.%d ends %q, with %v", i, n, s.end.Finish, s.err)
					return
				}
			}
		})
	}
	runs.Wait()
}

// What a nested agent's model said last is told with its limit, though results
// stand behind it.
func TestTheLastWordsOfANestedAgentAreItsModels(t *testing.T) {
	note := tool.Must(tool.Func(tool.Spec{Name: "note", Effect: tool.ReadOnly},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Done("noted"), nil
		}))
	helper, err := agent.New(agent.Config{Name: "helper", Tools: []tool.Tool{note},
		Limits: agent.Limits{Turns: 1},
		Model:  fakellm.New(fakellm.Says("Half of it is done.").And("note", `{}`))})
	must(t, err)
	nested, err := agenttool.New[task, string](helper, nil)
	must(t, err)
	r := newRig(t, agent.Config{Tools: []tool.Tool{nested}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"x"}`), fakellm.Says("I see."))}, nil)
	r.say("Go.").finished(event.FinishStop)
	if got := fmt.Sprint(r.outputs()); !strings.Contains(got, "It said last: Half of it is done.") {
		t.Errorf("the caller's model reads %s", got)
	}
}

// The answer of a nested agent is bounded as any output of the caller's tools.
func TestANestedAgentsAnswerIsBounded(t *testing.T) {
	helper := nestedTool(t, "helper", fakellm.New(fakellm.Says(strings.Repeat("abc ", 1000))))
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper},
		ToolLimits: tool.Limits{Result: 1000}, Model: fakellm.New(
			fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I know."))},
		&rigOptions{memory: true})
	r.say("Go.").finished(event.FinishStop)
	if got := r.outputs(); len(got) != 1 ||
		!strings.Contains(got[0], "has 4000 bytes, at most 1000 are taken") {
		t.Errorf("%.300q", got)
	}
	must(t, r.Close())
	r.sound()
}
