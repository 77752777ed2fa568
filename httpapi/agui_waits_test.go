package httpapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// A question is an interrupt of its own kind, whose answer has to fit. Left
// unanswered, its call is cancelled, and the agent goes on.
func TestAGUIQuestions(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("ask")
	c.run()
	in := c.interrupts[0]
	if in.Reason != "input_required" || in.Message != "Which colour?" ||
		string(in.ResponseSchema) != `{"type":"string"}` {
		t.Errorf("the interrupt is %+v", in)
	}
	c.refused(c.input(c.resolved(`7`))).is(t, 422, "invalid")
	events := c.run(c.resolved(`"blue"`))
	mustBe(t, string(of(events, "TOOL_CALL_RESULT")[0].Content), `"blue"`)

	c.say("ask")
	c.run()
	events = c.run(agResume{c.interrupts[0].ID, "cancelled", nil})
	result := of(events, "TOOL_CALL_RESULT")
	if len(result) != 1 || result[0].Metadata.Fermata.Status != "cancelled" ||
		last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
}

// An approval that is left unanswered is a denial.
func TestAGUIAbandonedApproval(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.paused("ada")
	events := c.run(agResume{c.interrupts[0].ID, "cancelled", nil})
	if r := of(events, "TOOL_CALL_RESULT"); len(r) != 1 || r[0].Metadata.Fermata.Status != "denied" ||
		s.paid.Load() != 0 {
		t.Errorf("the run is %s", texts(events))
	}
}

// An interrupt that nothing has answered in time is abandoned by its client, and
// the thread goes on.
func TestAGUIInterruptThatHasExpired(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.paused("ada")
	id := c.interrupts[0].ID
	for p, err := range s.rn.Pending(t.Context(), session.PauseFilter{}, "") {
		must(t, err)
		must(t, s.rn.Extend(t.Context(), p.Session, p.ID, "ada", time.Now().Add(200*time.Millisecond)))
		for ev, err := range s.rn.Follow(t.Context(), p.Session, "", &runner.FollowOptions{
			ThroughWaits: true}) {
			must(t, err)
			if end, ok := ev.(event.End); ok && end.Finish != event.FinishStop {
				t.Fatalf("the session rests as %+v", end)
			}
		}
	}
	c.refused(c.input(agResume{id, "resolved", json.RawMessage(`{"approved":true}`)})).is(t, 410, "expired")
	c.say("Hi.")
	events := c.run(agResume{id, "cancelled", nil})
	if last(events).Outcome.Type != "success" || s.paid.Load() != 0 ||
		!strings.HasSuffix(c.screen(), "user: Hi.\nassistant: Hello.") {
		t.Errorf("the run is %s", texts(events))
	}
}

// Of several interrupts, one that gets no answer, or none that is taken, stays
// open, and the run ends with it again.
func TestAGUISomeOfSeveralInterrupts(t *testing.T) {
	s := newSite(t, siteOptions{model: fakellm.New(fakellm.When(nil,
		fakellm.Calls("pay", `{"cents":1}`).And("pay", `{"cents":2}`).And("ask", `{}`),
		fakellm.Says("All done.")))})
	c := s.agClient("ada", "thread-1")
	c.say("Go.")
	if c.run(); len(c.interrupts) != 3 {
		t.Fatalf("there are %d interrupts", len(c.interrupts))
	}
	first, second, question := c.interrupts[0].ID, c.interrupts[1].ID, c.interrupts[2].ID
	approve := json.RawMessage(`{"approved":true}`)
	events := c.run(agResume{first, "resolved", approve},
		agResume{second, "resolved", json.RawMessage(`1`)})
	refused := of(events, "fermata.refused")
	if len(refused) != 1 || !strings.Contains(string(refused[0].Value), `"interrupt":"`+second) ||
		!strings.Contains(string(refused[0].Value), "#invalid") || len(c.interrupts) != 2 {
		t.Fatalf("the run is %s", texts(events))
	}
	events = c.run(agResume{second, "resolved", approve},
		agResume{question, "resolved", json.RawMessage(`"blue"`)})
	if last(events).Outcome.Type != "success" || len(of(events, "TOOL_CALL_RESULT")) != 2 {
		t.Errorf("the run is %s", texts(events))
	}
}

// A message that comes while a call waits for its user waits, too, and is taken
// once the interrupt is answered.
func TestAGUIMessageBesideAnInterrupt(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.paused("ada")
	c.say("Hi.")
	if events := c.run(); last(events).Outcome.Type != "interrupt" {
		t.Fatalf("the run is %s", texts(events))
	}
	events := c.run(c.resolved(`{"approved":true}`))
	if last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	c.run() // whatever else is said meanwhile
	mustBe(t, c.screen(), strings.TrimSpace(`
user: pay
assistant:  pay{"cents":500}
tool: paid
assistant: Paid.
user: Hi.
assistant: Hello.`))
}

// A run whose call waits for an outside job goes on until the job is done: that
// is nothing which the client could answer.
func TestAGUIRunWaitsForAnOutsideJob(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("build")
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
		// Nor may the client answer it.
		c.refused(c.input(agResume{p.ID, "resolved", json.RawMessage(`"built"`)})).is(t, 403, "not_allowed")
		_, err := s.rn.Resume(t.Context(), p.Session, runner.Complete(p.ID, "ci", json.RawMessage(`"built"`)))
		must(t, err)
	}
	events = c.rest(st)
	if last(events).Outcome.Type != "success" || !strings.HasSuffix(c.screen(), "Built.") {
		t.Errorf("the run is %s", texts(events))
	}
}

// A client that comes back, or another one of the same user's, is shown what is
// stored, and then what goes on.
func TestAGUIClientComesBack(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("slow")
	st := c.open(c.input())
	c.until(st, "RUN_STARTED")
	c.until(st, "TOOL_CALL_END")
	st.close() // and the run goes on

	other := s.agClient("ada", "thread-1")
	st = other.open(other.input())
	defer st.close()
	other.until(st, "MESSAGES_SNAPSHOT")
	close(s.gate)
	events := other.rest(st)
	if len(of(events, "TOOL_CALL_START")) != 0 || last(events).Outcome.Type != "success" {
		t.Errorf("the rest is %s", texts(events))
	}
	mustBe(t, other.screen(), strings.TrimSpace(`
user: slow
assistant:  slow{}
tool: slept
assistant: Slept.`))
}

// What one client's user says, the other one's is shown.
func TestAGUITwoClientsOfAThread(t *testing.T) {
	s := newSite(t, siteOptions{})
	one, two := s.agClient("ada", "thread-1"), s.agClient("ada", "thread-1")
	one.say("Hi.")
	one.run()
	two.messages = append(two.messages, agMessage{ID: "other", Role: "user",
		Content: json.RawMessage(`"Ho."`)})
	two.run()
	const all = "user: Hi.\nassistant: Hello.\nuser: Ho.\nassistant: Hello."
	mustBe(t, two.screen(), all)
	one.run()
	mustBe(t, one.screen(), all)
}

// A run that was stopped goes on with one that brings no message.
func TestAGUIRunIsTriedAgain(t *testing.T) {
	s := newSite(t, siteOptions{model: fakellm.New(fakellm.When(nil,
		fakellm.Fails(&llm.Error{Kind: llm.ErrAuth, Err: errors.New("key sk-1 of host 10.0.0.1")}),
		fakellm.Says("Hello.")))})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	events := c.run()
	if end := last(events); end.Type != "RUN_ERROR" || strings.Contains(texts(events), "10.0.0.1") {
		t.Fatalf("the run is %s", texts(events))
	}
	if events = c.run(); last(events).Outcome.Type != "success" {
		t.Errorf("the second run is %s", texts(events))
	}
	mustBe(t, c.screen(), "user: Hi.\nassistant: Hello.")
}

// What an agent here has no use for is told, and fails nothing.
func TestAGUIInputThatIsIgnored(t *testing.T) {
	s := newSite(t, siteOptions{config: httpapi.Config{Path: "/"}})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	in := c.input()
	in["state"], in["tools"], in["context"] = map[string]any{"a": 1}, []any{}, []any{map[string]any{
		"description": "a", "value": "b"}}
	in["messages"].([]agMessage)[0].Content = json.RawMessage(
		`[{"type":"text","text":"Hi."},{"type":"image","source":{"type":"url","value":"http://10.0.0.1/"}}]`)
	ignored := of(c.send(in), "fermata.ignored")
	if len(ignored) != 1 || string(ignored[0].Value) != `{"input":["context","state","content"]}` {
		t.Errorf("it is told of %s", texts(ignored))
	}
}

// A handler that stops ends the runs that it shows, and they go on elsewhere.
func TestAGUIRunWhoseHandlerStops(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("slow")
	st := c.open(c.input())
	defer st.close()
	c.until(st, "TOOL_CALL_END")
	s.api.Drain()
	events := c.rest(st)
	if len(events) == 0 || last(events).Type != "RUN_ERROR" || last(events).Code != "closing" {
		t.Errorf("the rest is %s", texts(events))
	}
	c.say("Hi.")
	c.refused(c.input()).is(t, 503, "closing")
	close(s.gate)
}
