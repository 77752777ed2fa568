package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// onceShared is a rig on an engine that several processes might share, whose agent
// makes one gated call of a tool with that body.
func onceShared(t *testing.T, effect tool.Effect, gate interceptor.Layer,
	body func(context.Context, tool.Call) (tool.Result[textOut], error)) *rig {
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: effect, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			return body(ctx, tool.CallFrom(ctx))
		}))
	return newRig(t, oneCall(act, gate), &rigOptions{wrap: hidden})
}

// approving is an approval that does something when its call comes back to it.
func approving(pure bool, back func()) interceptor.Layer {
	gate := approval()[0]
	ask := gate.Tool
	gate.Pure = pure
	gate.Tool = func(next interceptor.ToolHandler) interceptor.ToolHandler {
		asks := ask(next)
		return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			if _, decided := c.Decided("approval"); decided {
				back()
			}
			return asks(ctx, c)
		}
	}
	return gate
}

// Where leases are stored, a drive that is about to enter one call of effect
// once takes its lease with the claim. Whatever is not pure runs under a lease.
func TestTheClaimTakesTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		effect  tool.Effect
		pure    bool
		held    bool // the session, when the layer is asked again
		commits int  // from the approval to the end
	}{
		"effect once":                    {tool.Once, true, false, 3},
		"effect once, behind other code": {tool.Once, false, true, 4},
		"an effect that needs no claim":  {tool.Idempotent, true, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			head := func() (held bool, epoch int) {
				st, err := r.store.Load(t.Context(), chat)
				must(t, err)
				return st.Held && !st.LeaseEnd.IsZero(), st.Epoch
			}
			gate := approving(c.pure, func() {
				if held, _ := head(); held != c.held {
					t.Errorf("a drive holds the session: %v", held)
				}
			})
			entered := 0
			r = onceShared(t, c.effect, gate,
				func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
					entered++
					if held, epoch := head(); !held || call.Fence != int64(epoch) {
						t.Errorf("held: %v; the fence is %d, and the epoch %d", held, call.Fence, epoch)
					}
					return tool.Done(textOut{"done"}), nil
				})
			p := r.say("Go.").finished(event.FinishPaused).pause("act")
			res, err := r.Resume(t.Context(), chat, runner.Approve(p.ID, "eve", ""))
			must(t, err)
			before := r.faults.Applies()
			watch(t, res.Events(t.Context())).finished(event.FinishStop)
			if commits := r.faults.Applies() - before; commits != c.commits || entered != 1 {
				t.Errorf("%d commits, and not %d; entered %d times", commits, c.commits, entered)
			}
		})
	}
}

// A drive has no lease until its claim is stored. Whatever others do to the
// session until then, the claim counts for the call as it is when it is stored.
func TestTheClaimThatTakesTheLeaseIsOutrun(t *testing.T) {
	var r *rig
	var second *runner.Runner
	for name, c := range map[string]struct {
		other  func() // comes right before the first claim
		bodies []string
		ends   event.Finish
	}{
		"by a message": {func() {
			_, err := r.Send(t.Context(), user, chat, llm.UserText("And?"), nil)
			must(t, err)
		}, []string{"first"}, event.FinishPaused},
		"by the call's end": {func() {
			_, err := r.Cancel(t.Context(), chat, r.onlyCall(), user, "enough")
			must(t, err)
		}, nil, event.FinishStop},
		// Its body has paused again, and was answered: with another answer, and
		// under another number, than the first drive knows of.
		"by a drive that has entered the body": {func() {
			watch(t, second.Continue(t.Context(), chat, user)).finished(event.FinishPaused)
			_, err := second.Resume(t.Context(), chat,
				runner.Complete(r.onlyCall()+".2", "ci", text("v")))
			must(t, err)
		}, []string{"first", `again with {"text":"v"}`}, event.FinishStop},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			done := false
			gate := approving(true, func() {
				if !done {
					done = true
					c.other()
				}
			})
			r = onceShared(t, tool.Once, gate,
				func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
					if call.Answer != nil {
						bodies = append(bodies, fmt.Sprintf("again with %s", call.Answer.Payload))
						return tool.Done(textOut{"done"}), nil
					}
					bodies = append(bodies, "first")
					return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter,
						Schema: []byte(`{"type":"object"}`)}), nil
				})
			second = r.another()
			p := r.say("Go.").finished(event.FinishPaused).pause("act")
			r.answer(runner.Approve(p.ID, "eve", "")).finished(c.ends)
			if !slices.Equal(bodies, c.bodies) {
				t.Errorf("the body was entered %q, and not %q", bodies, c.bodies)
			}
			if c.ends == event.FinishStop {
				r.acceptable()
			}
		})
	}
}
