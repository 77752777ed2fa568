package runner_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestOutcomesAreCommittedWhoeverLooksAway: what bodies return is durable at once, although whoever ranges over the events is busy
// with an earlier one. A crash in that time must not cost it.
func TestOutcomesAreCommittedWhoeverLooksAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		work := does(tool.Spec{Name: "work"}, func(ctx context.Context, s string) (tool.Result[textOut], error) {
			err := tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "half"})
			<-goOn
			return tool.Done(textOut{s}), err
		})
		ask := does(tool.Spec{Name: "ask", MayPause: true}, func(context.Context, string) (tool.Result[textOut], error) {
			<-goOn
			return tool.Pending[textOut](tool.Await{}), nil
		})
		r := newRig(t, agent.Config{
			Model: messages(calls("work", `{"text":"a"}`, "ask", `{"text":"b"}`), says("Done.")), Tools: []tool.Tool{work, ask},
		}, &rigOptions{memory: true})
		looked := false
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			must(t, err)
			if _, ok := ev.(event.Progress); !ok {
				continue
			}
			looked = true
			close(goOn)
			synctest.Wait()
			st, err := r.store.Load(t.Context(), chat)
			must(t, err)
			if len(st.Calls) != 2 || st.Calls[0].Status != session.Settled || st.Calls[1].Status != session.Pending {
				t.Errorf("the calls are %+v", st.Calls)
			}
		}
		if !looked {
			t.Error("no progress was shown")
		}
	})
}
