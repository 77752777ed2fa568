package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A person answers in a nested agent that a deploy has taken away, or in one
// that such an agent waits for. What asks how the tree stands tells of it, and
// names the agent.
func TestAnAnsweredNestedAgentThatIsGoneIsTold(t *testing.T) {
	for name, levels := range map[string]int{"the agent itself": 1, "one above it": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { goneIsTold(t, levels) })
		})
	}
}

func goneIsTold(t *testing.T, levels int) {
	var log journal
	leaf := func() tool.Tool {
		return nestedTool(t, "leaf", fakellm.New(fakellm.Calls("ask", `{}`), fakellm.Says("Seven.")),
			roomTool())
	}
	tools, gone := []tool.Tool{leaf()}, "leaf"
	o := &runner.Options{Logger: log.logger()}
	if levels == 2 {
		gone = "helper"
		tools = []tool.Tool{nestedTool(t, gone, fakellm.New(fakellm.Calls("leaf", `{"what":"x"}`),
			fakellm.Says("Eight.")), leaf())}
	}
	r := newRig(t, agent.Config{Tools: tools, Model: fakellm.New(
		fakellm.Calls(tools[0].Spec().Name, `{"what":"Go."}`), fakellm.Says("Well."))},
		&rigOptions{memory: true, runner: o})
	s := r.say("Go.").finished(event.FinishPaused)
	p := s.end.Pending[len(s.end.Pending)-1]
	must(t, r.Close())
	r.config.Tools = nil
	if levels == 2 { // the leaf is here, and not what waits for it
		r.config.Tools = []tool.Tool{leaf()}
	}
	r.open()
	if got := r.carryOn().finished(event.FinishPaused).end.Parked; len(got) > 0 {
		t.Errorf("nothing is due, and these are parked: %+v", got)
	}
	res, err := r.Resume(t.Context(), p.Session, runner.Complete(p.ID, "eve", json.RawMessage(`"7"`)))
	must(t, err)
	if events := watch(t, res.Events(t.Context())); levels == 1 &&
		(!errors.Is(events.err, runner.ErrUnknownAgent) || !strings.Contains(events.err.Error(), gone)) {
		t.Errorf("the answer's events end with %v", events.err)
	}
	told := func(what string, got []event.Parked) {
		t.Helper()
		if len(got) != 1 || got[0].Agent != gone || got[0].Tool != gone || got[0].Session == "" ||
			got[0].Call == "" || got[0].Since.IsZero() || time.Since(got[0].Since) > 4*time.Hour {
			t.Errorf("%s has %+v", what, got)
		}
	}
	on := r.carryOn().finished(event.FinishPaused)
	told("the end", on.end.Parked)
	var undriven []string
	for _, n := range of[event.Nested](on) {
		if u, ok := n.Event.(event.Undriven); ok && len(n.Path) == 1 && n.Session != "" {
			undriven = append(undriven, u.Agent)
		}
	}
	if len(undriven) != 1 || undriven[0] != gone {
		t.Errorf("undriven are %q", undriven)
	}
	shown, err := r.Show(t.Context(), chat, user)
	must(t, err)
	told("Show", shown.Parked)
	told("Follow", watch(t, r.Follow(t.Context(), chat, user, nil)).end.Parked)
	waits := &runner.FollowOptions{From: 9, ThroughWaits: true}
	for ev, err := range r.Follow(t.Context(), chat, user, waits) {
		must(t, err)
		if n, ok := ev.(event.Nested); ok {
			if u, ok := n.Event.(event.Undriven); !ok || u.Agent != gone {
				t.Errorf("following shows %+v", ev)
			}
			break
		}
	}
	refused := r.say("And?")
	var pending *session.PendingError
	if !errors.As(refused.err, &pending) || !strings.Contains(refused.err.Error(), `the agent "`+gone+`"`) ||
		!strings.Contains(refused.err.Error(), "doesn't have") {
		t.Errorf("the next message is refused with %v", refused.err)
	}
	for name, o := range map[string]*runner.WorkOptions{
		"all": {Poll: time.Minute}, "one": {Session: chat, Poll: time.Minute},
	} {
		log.reset()
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		_ = r.Work(ctx, o)
		cancel()
		if got := strings.Count(log.String(), "doesn't have\" agent="+gone); got < 1 || got > 2 {
			t.Errorf("a worker of %s warned %d times: %s", name, got, log.String())
		}
	}

	r.config.Tools = tools // it is back
	must(t, r.Close())
	r.open()
	r.carryOn().finished(event.FinishStop)
	must(t, r.Close())
	r.sound()
}

// A message that can't supersede names what keeps it from that, and not what
// could have been superseded.
func TestWhatCantBeSupersededIsNamed(t *testing.T) {
	job := tool.Must(tool.Func(tool.Spec{Name: "job", MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonExternal}), nil
		}))
	helper := nestedTool(t, "helper", fakellm.New(fakellm.Calls("job", `{}`).And("ask", `{}`)), job,
		roomTool())
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Go."}`))}, &rigOptions{memory: true})
	r.say("Go.").finished(event.FinishPaused)
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."),
		&runner.RunOptions{Supersede: true}))
	if s.err == nil || !strings.Contains(s.err.Error(), "a call of job") ||
		!strings.Contains(s.err.Error(), "child:") || strings.Contains(s.err.Error(), "send the message") {
		t.Errorf("it is refused with %v", s.err)
	}
	must(t, r.Close())
	r.sound()
}

// What a caller did wrong is told so that they find the mistake.
func TestMistakesWithNestedAgentsAreTold(t *testing.T) {
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{nestedTool(t, "helper", fakellm.New(fakellm.Calls("ask", `{}`)), roomTool())},
		Model: fakellm.New(fakellm.Calls("helper", `{"what":"Go."}`))}, &rigOptions{memory: true})
	s := r.say("Go.").finished(event.FinishPaused)
	p := s.end.Pending[len(s.end.Pending)-1]
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "eve", json.RawMessage(`"7"`)))
	if !errors.Is(err, session.ErrUnknownCall) || !strings.Contains(err.Error(), "tool.Pause has it") {
		t.Errorf("an answer at the root is refused with %v", err)
	}
	front, err := agent.New(agent.Config{Name: "front", Model: fakellm.New(),
		Tools: []tool.Tool{nestedTool(t, "front", fakellm.New())}})
	must(t, err)
	if _, err := runner.New(front, r.public, nil); err == nil ||
		!strings.Contains(err.Error(), `one is behind the tool "front" of agent "front"`) {
		t.Errorf("two agents of one name: %v", err)
	}
	must(t, r.Close())
}
