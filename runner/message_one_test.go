package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A session of an agent of one message takes the message with which it begins,
// and one that answers a question. A further one, said or sent, is refused, and
// changes nothing.
func TestAnAgentOfOneMessage(t *testing.T) {
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(context.Context, textIn) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput,
				Mode: tool.ModeMessage, Prompt: "Sure?"}), nil
		}))
	r := newRig(t, agent.Config{
		OneMessage: true, Tools: []tool.Tool{ask},
		Model: messages(calls("ask", `{"text":"x"}`), says("Done.")),
	}, nil)
	r.say("Go.").finished(event.FinishPaused)
	r.say("yes").finished(event.FinishStop)
	before := len(r.texts())
	if s := r.say("And more."); !errors.Is(s.err, session.ErrInvalidMessage) {
		t.Errorf("a further message is %v", s.err)
	}
	_, err := r.Send(t.Context(), user, chat, llm.UserText("And more."), nil)
	if !errors.Is(err, session.ErrInvalidMessage) {
		t.Errorf("one that is sent is %v", err)
	}
	if after := r.texts(); len(after) != before {
		t.Errorf("the session has %q", after)
	}
	r.acceptable()
}
