package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
)

// What a call may come to, a handle may come to, and fetch has it whole, under
// the limit that goes for results. An await cuts it, and says so.
func TestFetchHasAResultWhole(t *testing.T) {
	for name, limit := range map[string]int{"by default": 1 << 20, "a small limit": 5 << 10} {
		t.Run(name, func(t *testing.T) {
			most := strings.Repeat("x", limit-len(`""`))
			build := stateful(t, "build", tool.Once,
				func(ctx context.Context, in target) (tool.Result[string], error) {
					return tool.Done(most), nil
				})
			model := fakellm.New(
				fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`).
					And("await", `{"all":["a"]}`),
				fakellm.Calls("build", `{"action":"fetch","id":"a"}`), fakellm.Says("Done."))
			r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: model,
				ToolLimits: tool.Limits{Result: limit}}, &rigOptions{memory: true})
			r.say("Go.").finished(event.FinishStop)
			got := r.outputs()
			if !strings.Contains(got[1], "fetch has it whole") || len(got[1]) > limit {
				t.Errorf("the await has %d bytes: %.100s", len(got[1]), got[1])
			}
			if got[2] != `{"id":"a","state":"stopped","result":"`+most+`"}` {
				t.Errorf("fetch has %d bytes: %.100s", len(got[2]), got[2])
			}
			must(t, r.Close())
			r.sound()
		})
	}
}
