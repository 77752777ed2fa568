package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// handing returns options with an agent "billing", and the tool of the rig's
// own agent that hands over to it.
func handing(t *testing.T, billing *fakellm.Model, tools ...tool.Tool) (tool.Tool, *rigOptions) {
	t.Helper()
	ag, err := agent.New(agent.Config{Name: "billing", Model: billing, Tools: tools})
	must(t, err)
	over, err := agenttool.Handoff("billing", nil)
	must(t, err)
	return over, &rigOptions{runner: &runner.Options{Agents: []*agent.Agent{ag}}}
}

// An agent hands the conversation over: the other one answers the user, in this
// run and the next, and stands in the session's head.
func TestAnAgentHandsTheConversationOver(t *testing.T) {
	billing := fakellm.New(fakellm.Says("-"), fakellm.Says("Refunded."), fakellm.Says("Gladly."))
	over, o := handing(t, billing)
	front := fakellm.New(fakellm.Calls("transfer_to_billing", `{"reason":"money"}`))
	r := newRig(t, agent.Config{Tools: []tool.Tool{over}, Model: front}, o)
	s := r.say("I want my money back.")
	if s.err != nil || s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if !slices.Contains(s.events, event.Event(event.Handoff{From: "ops", To: "billing"})) {
		t.Errorf("no handoff is shown: %v", s.events)
	}
	for _, ev := range s.events {
		if end, ok := ev.(event.End); ok && end.Finish == event.FinishHandedOver {
			t.Error("the caller is told of an end in between")
		}
	}
	shown, err := r.Show(t.Context(), chat, "")
	if must(t, err); shown.Agent != "billing" {
		t.Errorf("the session is %q's", shown.Agent)
	}
	r.restart()
	if s := r.say("Thanks."); s.end.Finish != event.FinishStop {
		t.Errorf("%+v, %v", s.end, s.err)
	}
	if texts := r.texts(); texts[len(texts)-1] != "Gladly." {
		t.Errorf("said was %q", texts)
	}
	must(t, r.Close()) // what sessions owe each other is carried out by then
	r.sound()
}

func TestARunnerNeedsTheAgentThatAToolHandsTo(t *testing.T) {
	over, err := agenttool.Handoff("nobody", nil)
	must(t, err)
	ag, err := agent.New(agent.Config{Name: "ops", Model: fakellm.Echo(), Tools: []tool.Tool{over}})
	must(t, err)
	r := newRig(t, agent.Config{Model: fakellm.Echo()}, nil)
	_, err = runner.New(ag, r.public, nil)
	if err == nil || !strings.Contains(err.Error(), `hands over to the agent "nobody"`) {
		t.Errorf("%v", err)
	}
}

// TestCallingOffAfterTheHandover: what a call of the first agent has begun is
// still that one's to call off when the session is another agent's.
func TestCallingOffAfterTheHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(func(try int) error {
			if try < 3 {
				return errors.New("no answer")
			}
			return nil
		})
		over, o := handing(t, fakellm.New(fakellm.Says("-"), fakellm.Says("Refunded.")))
		o.memory = true
		r := newRig(t, agent.Config{Tools: []tool.Tool{over, build(off, tool.Once)},
			Model: fakellm.New(fakellm.Calls("build", `{"text":"a"}`).
				And("transfer_to_billing", `{"reason":"money"}`))}, o)
		p := r.say("Go.").finished(event.FinishPaused).pause("build")
		_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
		must(t, err)
		r.carryOn().finished(event.FinishStop)
		if owed := r.owed(); len(owed) != 1 || owed[0].Agent != "ops" || owed[0].Parked ||
			r.transcript().Agent != "billing" {
			t.Errorf("it is owed so: %+v", owed)
		}
		time.Sleep(time.Hour)
		if owed := r.owed(); len(owed) != 0 || len(off.seen()) != 3 {
			t.Errorf("it was tried %d times, and is owed so: %+v", len(off.seen()), owed)
		}
		must(t, r.Close()) // what sessions owe each other is carried out by then
		r.sound()
	})
}

// A cancellation comes when a call has handed the conversation over, and another
// one of its turn still waits. The results say that it is handed over, and so it
// is: the next message is the other agent's.
func TestACancelledSessionStaysHandedOver(t *testing.T) {
	over, o := handing(t, fakellm.New(fakellm.Says("Refunded.").Forever()))
	r := newRig(t, agent.Config{Tools: []tool.Tool{over, roomTool()}, Model: fakellm.New(
		fakellm.Calls("transfer_to_billing", `{}`).And("ask", `{}`),
		fakellm.Says("I am the front."))}, o)
	r.say("I want my money back.").finished(event.FinishPaused)
	must(t, r.CancelSession(t.Context(), chat, "eve", "enough"))
	shown, err := r.Show(t.Context(), chat, "")
	if must(t, err); shown.Agent != "billing" || shown.Finish != event.FinishCancelled {
		t.Errorf("the session is %q's, and ended as %s", shown.Agent, shown.Finish)
	}
	r.restart()
	r.say("And?").finished(event.FinishStop)
	if texts := r.texts(); texts[len(texts)-1] != "Refunded." {
		t.Errorf("said was %q", texts)
	}
	must(t, r.Close())
	r.sound()
}
