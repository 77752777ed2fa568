package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// No user code runs inside a storage transaction, nor under a lock: a layer, a
// body, a policy, the consumer of the events and the authorizer each call back
// into the runner.
func TestNoUserCodeInTransactions(t *testing.T) {
	var n counter
	var r *rig
	reenter := func() {
		ctx := context.Background()
		for range r.Sessions(ctx, session.Filter{}, user) {
			for range r.Pending(ctx, session.PauseFilter{}, user) {
			}
		}
		if got, err := r.Show(ctx, chat, user); err == nil && len(got.Pending) > 0 {
			must(t, r.Progress(ctx, chat, got.Pending[0].Call, user, tool.Progress{Message: "x"}))
		}
	}
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			reenter()
			// the file grows, and is mapped anew
			return tool.Done(textOut{strings.Repeat("x", 100_000)}), nil
		}))
	script := messages(calls("job", `{"text":"j"}`, "act", `{"text":"a"}`,
		"act", `{"text":"b"}`), says("Done."))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{act, waiting("job", tool.Idempotent, &n)},
		Model: modelFunc(func(req llm.Request) []llm.Event { reenter(); return script(req) }),
		Interceptors: interceptor.Chain{
			{Name: "layer", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					reenter()
					return next(ctx, c)
				}
			}},
			interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
				reenter()
				return interceptor.Verdict{Ruling: interceptor.Allow}, nil
			}}),
		},
	}, &rigOptions{runner: &runner.Options{Authorizer: func(ctx context.Context, op runner.Operation) error {
		if op.Kind == runner.OpResume {
			_, err := r.store.Load(ctx, op.Session)
			return err
		}
		return nil
	}}})
	var p tool.Pause
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		reenter()
		if e, ok := ev.(event.Pause); ok {
			p = e.Pause
		}
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	r.acceptable()
}

// TestCallingBackFromTheLoop: a listener may use the runner while it looks at
// an event, whichever it is.
func TestCallingBackFromTheLoop(t *testing.T) {
	for name, test := range map[string]struct {
		call func(ctx context.Context, r *rig, ev event.Event) error
		want error // nil: it is taken
	}{
		"Run": {func(ctx context.Context, r *rig, _ event.Event) error {
			return watch(r.t, r.Run(ctx, user, chat, llm.UserText("Me too."), nil)).err
		}, session.ErrBusy},
		"Continue": {func(ctx context.Context, r *rig, _ event.Event) error {
			return watch(r.t, r.Continue(ctx, chat, user)).err
		}, session.ErrBusy},
		"Show": {func(ctx context.Context, r *rig, _ event.Event) error {
			_, err := r.Show(ctx, chat, user)
			return err
		}, nil},
		"Pending": {func(ctx context.Context, r *rig, _ event.Event) (err error) {
			for _, err = range r.Pending(ctx, session.PauseFilter{}, user) {
			}
			return err
		}, nil},
		"Progress": {func(ctx context.Context, r *rig, ev event.Event) error {
			if ev, ok := ev.(event.Call); ok {
				return r.Progress(ctx, chat, ev.Call.ID, user, tool.Progress{Message: "seen"})
			}
			return nil
		}, nil},
		"Resume": {func(ctx context.Context, r *rig, ev event.Event) error {
			if ev, ok := ev.(event.Pause); ok {
				res, err := r.Resume(ctx, chat, runner.Complete(ev.Pause.ID, "ci", text("b")))
				must(r.t, err)
				return errors.Join(err,
					watch(r.t, res.Events(ctx)).finished(event.FinishElsewhere).err)
			}
			return nil
		}, nil},
	} {
		for _, layers := range []interceptor.Chain{nil, {passesTurns}} {
			t.Run(fmt.Sprintf("%s through %d layers", name, len(layers)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n counter
					r := newRig(t, busyAgent(&n, layers...), &rigOptions{memory: true})
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						must(t, err)
						if _, ended := ev.(event.End); ended {
							break
						}
						if err := test.call(t.Context(), r, ev); !errors.Is(err, test.want) {
							t.Errorf("at %T: %v, not %v", ev, err, test.want)
						}
					}
					r.finish(&n)
				})
			})
		}
	}
}
