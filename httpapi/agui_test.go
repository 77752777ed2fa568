package httpapi_test

import (
	"strings"
	"testing"
)

// A client that knows AG-UI alone runs, is interrupted by an approval, resumes,
// and finishes. It shows each message once, in order.
func TestAGUIRunIsInterruptedAndResumed(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("pay")
	events := c.run()
	end := last(events)
	if end.Type != "RUN_FINISHED" || end.Outcome.Type != "interrupt" || len(c.interrupts) != 1 ||
		end.ThreadID != "thread-1" || end.RunID != "ada-run-1" || events[0].ProtocolVersion != "1.0" {
		t.Fatalf("the run is %s", texts(events))
	}
	in := c.interrupts[0]
	if in.Reason != "tool_call" || in.Message != "Run pay?" || in.ExpiresAt == "" ||
		string(in.Metadata.Fermata.Arguments) != `{"cents":500}` {
		t.Errorf("the interrupt is %+v", in)
	}
	events = c.run(c.resolved(`{"approved":true}`))
	if len(of(events, "TOOL_CALL_START"))+len(of(events, "MESSAGES_SNAPSHOT")) != 0 {
		t.Errorf("the call is shown again: %s", texts(events))
	}
	result := of(events, "TOOL_CALL_RESULT")
	if len(result) != 1 || result[0].ToolCallID != in.ToolCallID ||
		result[0].Metadata.Fermata.Status != "done" || last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), strings.TrimSpace(`
user: pay
assistant:  pay{"cents":500}
tool: paid
assistant: Paid.`))

	// The next message needs no snapshot: the client shows what is stored.
	c.say("Hi.")
	if events = c.run(); len(of(events, "MESSAGES_SNAPSHOT")) != 0 {
		t.Errorf("the next run is %s", texts(events))
	}
}
