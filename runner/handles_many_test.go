package runner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Very many handles that ended before they were awaited are told by the await,
// and no commit grows with their number.
func TestVeryManyHandlesAreAwaited(t *testing.T) {
	t.Parallel()
	all, each := testlength.Part(4, 400), 50
	model := modelFunc(func(r llm.Request) (events []llm.Event) {
		call := func(name, args string) {
			c := llm.ToolCall{Name: name, Arguments: json.RawMessage(args)}
			events = append(events, llm.PartDone{Part: c})
		}
		asked := 0
		for _, m := range r.Messages {
			asked += len(m.ToolCalls())
		}
		switch {
		case asked < all:
			for i := range each {
				call("build", fmt.Sprintf(`{"action":"spawn","id":"h%d","target":"x"}`, asked+i))
			}
		case asked == all:
			ids := make([]string, all)
			for i := range ids {
				ids[i] = fmt.Sprintf("h%d", i)
			}
			raw, _ := json.Marshal(map[string]any{"all": ids})
			call("await", string(raw))
		default:
			events = append(events, llm.PartDone{Part: llm.Text{Text: "Done."}})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	})
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	got := r.outputs()
	if last := got[len(got)-1]; strings.Count(last, `"stopped"`) != all {
		t.Errorf("the await tells %.200s", last)
	}
	must(t, r.Close())
	r.sound()
}
