package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

type task struct {
	What string `json:"what"`
}

// nestedTool makes a tool of an agent with that model and those tools.
func nestedTool(t *testing.T, name string, m llm.Model, tools ...tool.Tool) tool.Tool {
	t.Helper()
	ag, err := agent.New(agent.Config{Name: name, Model: m, Tools: tools})
	must(t, err)
	made, err := agenttool.New[task, string](ag, nil)
	must(t, err)
	return made
}

// roomTool is a tool that asks a person.
func roomTool() tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which room?"), nil
		}))
}

// A nested agent works in a session of its own, and its last text is the call's
// result. The caller sees what it does.
func TestANestedAgentsLastTextIsTheResult(t *testing.T) {
	helper := nestedTool(t, "helper", fakellm.New(fakellm.Says("It is 42.")))
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I know: 42."))}, nil)
	s := r.say("Go.")
	if s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if got := r.outputs(); len(got) != 1 || got[0] != `"It is 42."` {
		t.Errorf("outputs are %q", got)
	}
	nested := 0
	for _, ev := range s.events {
		if n, ok := ev.(event.Nested); ok {
			nested++
			if n.Agent != "helper" || len(n.Path) != 1 || n.Path[0].Session != chat ||
				n.Path[0].Tool != "helper" || !strings.HasPrefix(n.Session, "child:") {
				t.Errorf("%+v", n)
			}
		}
	}
	if nested == 0 {
		t.Error("nothing of the child was shown")
	}
	must(t, r.Close()) // what sessions owe each other is carried out by then
	r.sound()
}

// A pause in a nested agent is answered by its own id, and the parent goes on.
func TestAPauseInANestedAgentIsAnsweredByItsOwnID(t *testing.T) {
	helper := nestedTool(t, "helper", fakellm.New(
		fakellm.Calls("ask", `{}`), fakellm.Says("Room 7.")), roomTool())
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Book."}`), fakellm.Says("Booked."))}, nil)
	s := r.say("Go.")
	if s.end.Finish != event.FinishPaused {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	var pause tool.Pause
	for p, err := range r.Pending(t.Context(), public.PauseFilter{Reason: tool.ReasonInput}, "") {
		must(t, err)
		pause = p
	}
	r.restart()
	res, err := r.Resume(t.Context(), pause.Session,
		runner.Complete(pause.ID, "ada", json.RawMessage(`"7"`)))
	must(t, err)
	var last event.End
	for ev, err := range res.Events(t.Context()) {
		must(t, err)
		if end, ok := ev.(event.End); ok {
			last = end
		}
	}
	if last.Finish != event.FinishStop || last.Session != chat {
		t.Errorf("%+v", last)
	}
	if got := r.outputs(); len(got) != 1 || got[0] != `"Room 7."` {
		t.Errorf("outputs are %q", got)
	}
	must(t, r.Close()) // what sessions owe each other is carried out by then
	r.sound()
}
