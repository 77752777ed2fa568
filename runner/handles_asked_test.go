package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// asksModel is a tool that asks the model which compiler to take.
func asksModel(t *testing.T) tool.Tool {
	return stateful(t, "build", tool.Idempotent,
		func(ctx context.Context, in target) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonAssistant,
				Prompt: "Which compiler?"}), nil
		})
}

// A call of a turn that asks the model is answered by a request beside the
// conversation, whose answer is stored and is not in the history.
func TestAQuestionForTheModelIsAskedApart(t *testing.T) {
	model := fakellm.New(
		fakellm.When(fakellm.UserSays("does not fit"), fakellm.Says(`{"answer":"gcc"}`)),
		fakellm.When(fakellm.UserSays("Which compiler?"), fakellm.Says(`{"answer":17}`)),
		fakellm.Calls("build", `{"target":"x"}`), fakellm.Says("Built."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{asksModel(t)}, Model: model}, nil)
	s := r.say("Go.")
	if s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if got := r.outputs(); len(got) != 1 || got[0] != `"gcc"` {
		t.Errorf("%q", got)
	}
	all := model.Requests()
	if len(all) != 4 {
		t.Fatalf("%d requests", len(all))
	}
	asked := all[1]
	if asked.ToolChoice.Mode != llm.ToolNone || len(asked.ResponseFormat.Schema) == 0 ||
		len(asked.Messages) != 2 || !strings.Contains(asked.Messages[1].Text(), "Which compiler?") {
		t.Errorf("the model is asked %+v", asked)
	}
	if again := all[2].Messages[1].Text(); !strings.Contains(again, "does not fit") {
		t.Errorf("it is asked again: %s", again)
	}
	if n := r.transcript().Messages; n != 4 {
		t.Errorf("the history has %d messages", n)
	}
	must(t, r.Close())
	r.sound()
}
