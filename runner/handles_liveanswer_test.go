package runner_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// What a body asks while it runs is answered by what fits its schema: of a
// program as of the model. What doesn't is refused, and the question stands. A
// text that holds the JSON that fits is read as that, and is the same input when
// it is given again. From when the body has its answer, nothing is asked.
func TestAnAnswerFitsALiveQuestion(t *testing.T) {
	says := make(chan tool.Content)
	own := rawTool{tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
		Input:   json.RawMessage(`{"type":"object","properties":{"target":{"type":"string"}}}`),
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}}, talksUntil(says, 2)}
	model := fakellm.New(fakellm.Says("Hi."),
		fakellm.Calls("build", `{"action":"apply","id":"a","input":"many"}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{kept(t, own)}}, nil)
	r.say("Hello.").finished(event.FinishStop)
	s := r.spawned("a", "build", `{}`)
	q := tool.LiveQuestion{ID: "q1", Text: "How many?", Assistant: true,
		Schema: json.RawMessage(`{"type":"integer"}`)}
	r.said(says, tool.Content{Total: 1, Tail: "?", Question: &q})
	r.say("Answer.").finished(event.FinishStop)
	if got := r.outputs(); !strings.Contains(got[0], "integer") {
		t.Errorf("the model's answer comes to %q", got)
	}
	apply := func(delivery, value string) (session.Receipt, error) {
		return r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Delivery: delivery,
			Value: json.RawMessage(value)})
	}
	if _, err := apply("1", `true`); !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("an answer that doesn't fit comes to %v", err)
	}
	if h, err := r.Fetch(t.Context(), chat, "a", user); err != nil || h.State != tool.HandleWaiting {
		t.Errorf("%s, %v", h.State, err)
	}
	for i := range 2 {
		rc, err := apply("2", `"7"`)
		if err != nil || rc.Duplicate != (i == 1) {
			t.Errorf("%+v, %v", rc, err)
		}
	}
	for h := must2(r.Fetch(t.Context(), chat, "a", user)); h.State != tool.HandleRunning; {
		h = must2(r.Fetch(t.Context(), chat, "a", user))
	}
	must2(apply("3", `true`)) // nothing is asked: it is input of any form
	if h := r.awaited("a"); string(h.Output) != "7" {
		t.Errorf("%s", h.Output)
	}
	for m, err := range r.Received(t.Context(), s.Session, s.Call, user) {
		must(t, err)
		if asked := m.ID == "2"; (m.Question == "q1") != asked {
			t.Errorf("%+v", m)
		}
	}
	must(t, r.Close())
	r.sound()
}
