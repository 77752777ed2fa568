package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A child whose tool is slow leaves its place to the children of others.
func TestAChildsSlowToolHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := does(tool.Spec{Name: "slow"},
			func(_ context.Context, s string) (tool.Result[textOut], error) {
				time.Sleep(3 * time.Second)
				return tool.Done(textOut{s}), nil
			})
		helper := nestedTool(t, "helper",
			fakellm.New(fakellm.Calls("slow", `{"text":"x"}`), fakellm.Says("ok")), slow)
		r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
			fakellm.Calls("helper", `{"what":"x"}`), fakellm.Says("Done."))},
			&rigOptions{memory: true, runner: &runner.Options{Children: 1}})
		begun := time.Now()
		ended := r.begin("Go.")
		other := make(chan *seen, 1)
		go func() {
			other <- watch(t, r.Run(context.Background(), user, "chat-2", llm.UserText("Go."), nil))
		}()
		ended().finished(event.FinishStop)
		(<-other).finished(event.FinishStop)
		if took := time.Since(begun); took >= 6*time.Second {
			t.Errorf("one has waited for the other: they took %v", took)
		}
		must(t, r.Close())
		r.sound()
	})
}
