package runner_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/tool"
)

// Killed at any write, or with any acknowledgement lost, a model that begins a
// handle and awaits it comes to the same: there is one handle, whose end the
// await tells.
func TestHandlesKilledAtEveryWrite(t *testing.T) {
	for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
		for n, struck := 1, true; struck; n++ {
			t.Run(fault(n).String(), func(t *testing.T) {
				build := stateful(t, "build", tool.Idempotent,
					func(_ context.Context, in target) (tool.Result[string], error) {
						return tool.Done("built " + in.Target), nil
					})
				r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: fakellm.New(
					fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
					fakellm.Calls("await", `{"all":["a"]}`),
					fakellm.Says("Built."))}, &rigOptions{memory: true})
				r.faults.Add(fault(n).AndDie())
				r.tell("m-1", "Go.")
				struck = r.faults.Struck() > 0
				r.restart()
				if end := r.tell("m-1", "Go.").end; end.Finish != event.FinishStop {
					r.carryOn().finished(event.FinishStop)
				}
				if got := r.outputs(); len(got) != 2 || !strings.Contains(got[0], `"running"`) ||
					!strings.Contains(got[1], "built x") {
					t.Errorf("outputs are %q", got)
				}
				if n := r.sessions(); n != 2 {
					t.Errorf("there are %d sessions", n)
				}
				r.settled()
				r.told(0)
			})
		}
	}
}

// A handle whose process has died is carried on by the next one that drives its
// session: a body that may run again does, and one that may not has stopped,
// and tells that its outcome is unknown. Either way what awaits it goes on.
func TestAHandleWhoseProcessDied(t *testing.T) {
	for effect, want := range map[tool.Effect]string{
		tool.Once: "Its process died", tool.Idempotent: "built again", tool.ReadOnly: "built again",
	} {
		t.Run(string(effect), func(t *testing.T) {
			var entries atomic.Int32
			entered := make(chan struct{})
			build := stateful(t, "build", effect,
				func(ctx context.Context, _ target) (tool.Result[string], error) {
					if entries.Add(1) > 1 {
						return tool.Done("built again"), nil
					}
					close(entered)
					<-ctx.Done()
					return nil, ctx.Err()
				})
			r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: fakellm.New(
				fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
				fakellm.Calls("await", `{"all":["a"]}`),
				fakellm.Says("Done."))}, &rigOptions{memory: true})
			ended := r.begin("Go.")
			<-entered
			r.restart()
			_ = ended()
			r.carryOn().finished(event.FinishStop)
			if got := r.outputs(); !strings.Contains(got[1], want) {
				t.Errorf("it comes to %q", got)
			}
			r.settled()
			r.told(0)
		})
	}
}
