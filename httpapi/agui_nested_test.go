package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// What an agent in a tool asks is an interrupt of the user's run, and is
// answered by its id; the answer finds its session.
func TestAGUIApprovalOfANestedAgent(t *testing.T) {
	s := newSite(t, siteOptions{
		model: fakellm.New(fakellm.When(fakellm.UserSays("Pay it."),
			fakellm.Calls("helper", `{"task":"pay"}`), fakellm.Says("It is paid."))),
		change: func(c *agent.Config) {
			helper := *c
			helper.Name, helper.Model = "helper", fakellm.New(fakellm.When(nil,
				fakellm.Says("I pay.").And("pay", `{"cents":5}`), fakellm.Says("I have paid.")))
			ag, err := agent.New(helper)
			must(t, err)
			nested, err := agenttool.New[struct {
				Task string `json:"task"`
			}, string](ag, nil)
			must(t, err)
			c.Tools = append(c.Tools, nested)
		},
	})
	c := s.agClient("ada", "thread-1")
	c.say("Pay it.")
	events := c.run()
	if len(c.interrupts) != 1 || string(c.interrupts[0].Metadata.Fermata.Arguments) != `{"cents":5}` ||
		c.interrupts[0].Reason != "tool_call" {
		t.Fatalf("the run is %s", texts(events))
	}
	answer := c.resolved(`{"approved":true}`)

	// Another thread of the same user's is no way to it.
	other := s.agClient("ada", "thread-2")
	other.say("Hi.")
	other.refused(other.input(answer)).is(t, 404, "unknown_pause")

	in := c.input(answer)
	events = c.send(in)
	if last(events).Outcome.Type != "success" || s.paid.Load() != 5 {
		t.Fatalf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), strings.TrimSpace(`
user: Pay it.
assistant:  helper{"task":"pay"}
tool: I have paid.
assistant: It is paid.`))
	if end := last(c.send(in)); end.Outcome.Type != "success" { // once more
		t.Errorf("the run ends as %s", end.text)
	}
}

// A decision that is left to others is no interrupt of the user's: their run
// goes on, and ends when the others have decided.
func TestAGUIDecisionOfOthers(t *testing.T) {
	s := newSite(t, siteOptions{change: func(c *agent.Config) {
		c.Interceptors = interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Tools:     []string{"pay"},
			Approvers: func(tool.Call) []string { return []string{"bob"} }})}
	}})
	c := s.agClient("ada", "thread-1")
	c.say("pay")
	st := c.open(c.input())
	defer st.close()
	var events []agEvent
	for len(of(events, "fermata.pause")) == 0 {
		e, ok := c.next(st)
		if !ok {
			t.Fatalf("the run is over: %s", texts(events))
		}
		events = append(events, e)
	}
	for p, err := range s.rn.Pending(t.Context(), session.PauseFilter{}, "") {
		must(t, err)
		c.refused(c.input(agResume{p.ID, "resolved", []byte(`{"approved":true}`)})).is(t, 403, "not_approver")
		c.refused(c.input(agResume{p.ID, "cancelled", nil})).is(t, 403, "not_approver")
		_, err := s.rn.Resume(t.Context(), p.Session, runner.Approve(p.ID, "bob", ""))
		must(t, err)
	}
	events = c.rest(st)
	if last(events).Outcome.Type != "success" || s.paid.Load() != 500 {
		t.Errorf("the run is %s", texts(events))
	}
}

// What a model has said before it failed is taken off the screen.
func TestAGUIModelThatFailsOnItsWay(t *testing.T) {
	busy := &llm.Error{Kind: llm.ErrOverloaded}
	s := newSite(t, siteOptions{
		model: fakellm.New(fakellm.When(nil, fakellm.Says("It is not so.").Breaks(2, busy),
			fakellm.Says("So it is."))),
		change: func(c *agent.Config) {
			c.Retry = agent.Retry{Failures: 3, First: time.Millisecond}
		},
	})
	c := s.agClient("ada", "thread-1")
	c.say("Is it so?")
	if events := c.run(); last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), "user: Is it so?\nassistant: So it is.")
}

// rest reads a stream to its end.
func (c *agClient) rest(st *stream) (events []agEvent) {
	c.s.t.Helper()
	for {
		e, ok := c.next(st)
		if !ok {
			return events
		}
		events = append(events, e)
	}
}

// A message that waits, and then can't be the answer that is asked for, is told
// of before its run ends.
func TestAGUIMessageThatIsNotTaken(t *testing.T) {
	s := newSite(t, siteOptions{
		model: fakellm.New(fakellm.When(fakellm.UserSays("Go."), fakellm.Calls("slow", `{}`),
			fakellm.Calls("choose", `{}`), fakellm.Says("So be it."))),
		change: func(c *agent.Config) {
			type choice string
			c.Tools = append(c.Tools, tool.Must(tool.Func(tool.Spec{Name: "choose", MayPause: true},
				func(context.Context, struct{}) (tool.Result[choice], error) {
					return tool.Pending[choice](tool.Await{Reason: tool.ReasonInput,
						Mode: tool.ModeMessage, Prompt: "Red or blue?",
						Schema: []byte(`{"enum":["red","blue"]}`)}), nil
				})))
		},
	})
	one, two := s.agClient("ada", "thread-1"), s.agClient("ada", "thread-1")
	one.say("Go.")
	st := one.open(one.input())
	one.until(st, "TOOL_CALL_END")
	st.close()
	two.messages = append(two.messages, agMessage{ID: "late", Role: "user", Content: []byte(`"Hi."`)})
	st = two.open(two.input())
	defer st.close()
	if e, _ := two.next(st); e.Type != "RUN_STARTED" {
		t.Fatalf("the run begins with %s", e.text)
	}
	close(s.gate)
	events := two.rest(st)
	told := of(events, "fermata.not_taken")
	if len(told) != 1 || !strings.Contains(string(told[0].Value), `"message":"late"`) ||
		last(events).Outcome.Type != "interrupt" {
		t.Fatalf("the run is %s", texts(events))
	}
	// A message that fits is the answer, as the interrupt's own would be.
	two.say("blue")
	if events = two.run(); last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
}
