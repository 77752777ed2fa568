package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestBackgroundTools: no event of a drive, of a later one, or of a follower
// tells of their calls, but for what waits; their results are stored, and go to
// the model.
func TestBackgroundTools(t *testing.T) {
	background := tool.Scheduling{Background: true}
	body := func(answered string) func(context.Context, tool.Call) (tool.Execution, error) {
		return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			if err := c.Report(ctx, tool.Progress{Message: "half"}); err != nil {
				return tool.Execution{}, err
			}
			out := tool.Execution{Output: json.RawMessage(`"` + answered + `"`), Actions: []tool.Action{
				{Artifact: &tool.Artifact{Name: "a", MediaType: "text/plain", Data: []byte("a")}}}}
			if answered == "after" && c.Answer == nil {
				out.Await = &tool.Await{Mode: tool.ModeReenter, Prompt: "Well?"}
			}
			return out, nil
		}
	}
	for _, way := range []string{"by the same process", "by another"} {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{
					rawTool{tool.Spec{Name: "quiet", Scheduling: background}, body("at once")},
					rawTool{tool.Spec{Name: "asks", MayPause: true, Scheduling: background}, body("after")},
					rawTool{tool.Spec{Name: "shown"}, body("shown")}},
				Model: fakellm.New(fakellm.Calls("quiet", "{}").And("asks", "{}").And("shown", "{}"),
					fakellm.Says("Well.")),
			}, nil)
			run := r.say("Go.").finished(event.FinishPaused)
			untold(t, run.events, 1)
			_, err := r.Resume(t.Context(), chat, runner.Complete(run.end.Pending[0].ID, "bob", json.RawMessage("1")))
			must(t, err)
			if way == "by another" {
				r.restart()
			}
			untold(t, r.carryOn().finished(event.FinishStop).events, 0)
			untold(t, watch(t, r.Follow(t.Context(), chat, "", nil)).events, 0)
			for i, want := range []string{`"at once"`, `"after"`, `"shown"`} {
				res := r.transcript().History[2].Parts[i].(llm.ToolResult)
				d, err := r.Call(t.Context(), chat, res.Call, "")
				if must(t, err); string(res.Output) != want || string(d.Output) != want || len(d.Artifacts) == 0 {
					t.Errorf("the result of %s is %s, and is shown as %s with %d artifacts", res.Name,
						res.Output, d.Output, len(d.Artifacts))
				}
			}
		})
	}
}

// untold checks that events tell of no call but that of the tool that is shown,
// and of so many pauses.
func untold(t *testing.T, events []event.Event, pauses int) {
	t.Helper()
	for _, ev := range events {
		switch ev := ev.(type) {
		case event.Message, event.End, event.TextDelta:
		case event.Pause:
			pauses--
		default:
			if text := fmt.Sprintf("%+v", ev); !strings.Contains(text, "shown") {
				t.Errorf("a %T tells of a background tool: %s", ev, text)
			}
		}
	}
	if pauses != 0 {
		t.Errorf("%d pauses more, or fewer, were to be shown", pauses)
	}
}
