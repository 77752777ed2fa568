package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Fifty answers that differ come at once, through two runners on one store: one wins, is what the model reads, and is followed by one
// model call; the others are told so.
func TestTwoRunnersOneStore(t *testing.T) {
	for name, o := range map[string]*rigOptions{"exclusive": {}, "shared": {wrap: hidden}} {
		t.Run(name, func(t *testing.T) {
			var n counter
			var asked atomic.Int32
			script := messages(calls("confirm", `{"text":"j"}`), says("Done."))
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{confirming(&n)},
				Model: modelFunc(func(req llm.Request) []llm.Event { asked.Add(1); return script(req) }),
			}, o)
			p := r.say("Go.").finished(event.FinishPaused).pause("confirm")
			runners := []*runner.Runner{r.Runner, r.another()}
			var won, conflicts, duplicates atomic.Int32
			start := make(chan struct{})
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					<-start
					answer := []byte(fmt.Sprint(i / 2)) // each comes twice
					res, err := runners[i%2].Resume(context.Background(), chat, runner.Complete(p.ID, "ci", answer))
					switch {
					case err == nil && res.Receipts[0].Duplicate:
						duplicates.Add(1)
					case err == nil:
						won.Add(1)
					case errors.Is(err, session.ErrResumeConflict):
						conflicts.Add(1)
						return
					default:
						t.Errorf("%v", err)
						return
					}
					for _, err := range res.Events(context.Background()) {
						if err != nil {
							t.Errorf("%v", err)
						}
					}
				})
			}
			close(start)
			all.Wait()
			r.carryOn().finished(event.FinishStop)
			if won.Load() != 1 || duplicates.Load() != 1 || conflicts.Load() != 48 {
				t.Errorf("%d won, %d were duplicates, %d conflicts", won.Load(), duplicates.Load(), conflicts.Load())
			}
			if asked.Load() != 2 || n.get("ask") != 1 || n.get("act") != 1 {
				t.Errorf("the model was called %d times, bodies were entered %v", asked.Load(), n.n)
			}
			r.result(p.Call)
			r.acceptable()
		})
	}
}

// confirming asks for a number, and acts on it, once.
func confirming(n *counter) tool.Tool {
	return tool.Must(tool.Resumable(tool.Spec{Name: "confirm", Description: "c"},
		func(_ context.Context, _ textIn, ask tool.Ask[textOut, string]) (tool.Result[textOut], error) {
			n.add("ask")
			return ask("How many?", "state"), nil
		},
		func(_ context.Context, _ textIn, re tool.Reply[textOut, string, int]) (tool.Result[textOut], error) {
			n.add("act")
			return tool.Done(textOut{fmt.Sprint(re.Answer, re.State)}), nil
		}))
}
