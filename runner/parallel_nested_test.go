package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// below lists the beginnings and results of calls in sessions below the one that
// was driven.
func below(s *seen) (lines []string) {
	for _, ev := range s.events {
		n, ok := ev.(event.Nested)
		if !ok {
			continue
		}
		switch ev := n.Event.(type) {
		case event.Call:
			lines = append(lines, fmt.Sprintf("%s is asked for", ev.Call.Name))
		case event.Started:
			lines = append(lines, fmt.Sprintf("%d %s begins", ev.Index, ev.Tool))
		case event.Result:
			lines = append(lines, fmt.Sprintf("%d %s %s after %v", ev.Index, ev.Result.Name,
				ev.Status, ev.Duration))
		}
	}
	return lines
}

// TestABatchBelowIsShownExactly: that of a nested agent, and the one call of a
// handle. Background tools are told of nowhere.
func TestABatchBelowIsShownExactly(t *testing.T) {
	quiet := tool.Scheduling{Background: true}
	synctest.Test(t, func(t *testing.T) {
		var y tally
		helper := nestedTool(t, "helper", fakellm.New(
			asks("look", "a").And("quiet", `{"text":"b"}`).And("look", `{"text":"c"}`), fakellm.Says("Well.")),
			y.tool(tool.Spec{Name: "look"}, time.Second),
			y.tool(tool.Spec{Name: "quiet", Scheduling: quiet}, 2*time.Second))
		r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
			fakellm.Calls("helper", `{"what":"Look."}`), fakellm.Says("Well."))}, &rigOptions{memory: true})
		got := below(r.say("Go.").finished(event.FinishStop))
		want := []string{"0 look begins", "0 look done after 1s", "2 look begins", "2 look done after 1s",
			"look is asked for", "look is asked for"}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || y.most["quiet"] != 1 {
			t.Errorf("of a nested agent (-want +got):\n%s", diff)
		}
		must(t, r.Close())
	})
	for background, want := range map[bool][]string{false: {"0 build begins", "0 build done after 2s"}, true: nil} {
		synctest.Test(t, func(t *testing.T) {
			own, err := tool.Func(tool.Spec{Name: "build", MayPause: true,
				Scheduling: tool.Scheduling{Background: background, Limit: "one"}},
				func(context.Context, target) (tool.Result[string], error) {
					time.Sleep(2 * time.Second)
					return tool.Done("built"), nil
				})
			must(t, err)
			build, err := handle.Stateful(own, nil)
			must(t, err)
			r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: fakellm.New(
				fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
				fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Built."))},
				&rigOptions{memory: true, runner: &runner.Options{SharedLimits: map[string]int{"one": 1}}})
			if diff := cmp.Diff(want, below(r.say("Go.").finished(event.FinishStop))); diff != "" {
				t.Errorf("of a handle, in the background: %v (-want +got):\n%s", background, diff)
			}
			must(t, r.Close())
		})
	}
}
