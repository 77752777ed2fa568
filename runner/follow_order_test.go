package runner_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestFollowersAreShownATurnInOrder: what the model says of results comes behind
// them, though they could be stored with its message.
func TestFollowersAreShownATurnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newSpeaker()
		r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
			does(tool.Spec{Name: "look", Effect: tool.Idempotent},
				func(_ context.Context, s string) (tool.Result[textOut], error) {
					return tool.Done(textOut{s}), nil
				})}}, &rigOptions{memory: true})
		must2(r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil))
		f := follows(t, r.Follow(t.Context(), chat, user, &runner.FollowOptions{Stay: true}))
		f.sees("message 0 user")
		var driving sync.WaitGroup
		driving.Go(func() { _ = watch(t, r.Continue(t.Context(), chat, user)) })
		synctest.Wait()
		model.says("Hm.")
		model.tells <- llm.PartDone{Part: llm.ToolCall{Name: "look",
			Arguments: json.RawMessage(`{"text":"x"}`)}}
		model.tells <- llm.Finish{Reason: llm.StopToolCalls}
		synctest.Wait()
		model.says("Well.")
		f.sees("message 1 assistant", "event.Started", "result look done", "message 2 tool",
			"event.TextDelta")
		model.ends()
		f.sees("message 3 assistant", "end stop")
		driving.Wait()
		r.Close()
	})
}
