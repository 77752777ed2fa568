package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A call waits at a gate while its tool is deployed anew. What answers are
// judged by is the tool that runs: an answer that is faster than its pause is
// taken, or refused, as for a call that was asked for after the deploy.
func TestToolThatWasDeclaredAnewWhileItsCallWaited(t *testing.T) {
	type outcome struct {
		URL string `json:"url"`
	}
	before := map[string]tool.Tool{
		"it could not pause": tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j"},
			func(context.Context, struct{}) (tool.Result[outcome], error) { return tool.Done(outcome{}), nil })),
		"it gave something else": tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j", MayPause: true, Effect: tool.Idempotent},
			func(context.Context, struct{}) (tool.Result[int], error) { return tool.Done(1), nil })),
	}
	for name, old := range before {
		for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{old}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
					Model: messages(calls("job", `{}`), says("Done.")),
				}, nil)
				p := r.say("Go.").finished(event.FinishPaused).pause("job")

				entered := 0
				r.config.Tools = []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j", MayPause: true, Effect: effect},
					func(ctx context.Context, _ struct{}) (tool.Result[outcome], error) {
						entered++
						tok, err := r.ReadToken(ctx, tool.CallFrom(ctx).Token())
						must(t, err)
						if _, err := r.Resume(ctx, chat, runner.Complete(tok.PauseID(), "ci", []byte(`1`))); !errors.Is(err, session.ErrInvalidResumePayload) {
							t.Errorf("an answer as the tool was once declared: %v", err)
						}
						_, err = r.Resume(ctx, chat, runner.Complete(tok.PauseID(), "ci", []byte(`{"url":"u"}`)))
						must(t, err)
						return tool.Pending[outcome](tool.Await{}), nil
					}))}
				r.restart()
				r.answer(runner.Approve(p.ID, "grace", "")).finished(event.FinishStop)
				c, err := r.Call(t.Context(), chat, p.Call, user)
				must(t, err)
				if string(c.Output) != `{"url":"u"}` || entered != 1 || c.Receipts[len(c.Receipts)-1].Fate != "" {
					t.Errorf("after %d entries the call has %s, by %+v", entered, c.Output, c.Receipts)
				}
			})
		}
	}
}

// Cancel and Progress that name a pause are about that one: once it was
// answered they do nothing.
func TestCancelAndProgressOfAPauseThatIsOver(t *testing.T) {
	entered := 0
	twice := tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j", MayPause: true, Effect: tool.Idempotent},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			if entered++; entered > 2 {
				return tool.Done(textOut{"done"}), nil
			}
			return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
		}))
	r := newRig(t, agent.Config{Tools: []tool.Tool{twice}, Model: messages(calls("job", `{}`), says("Done."))}, nil)
	ctx := t.Context()
	first := r.say("Go.").finished(event.FinishPaused).pause("job")
	cancel := func(pause string) error { _, err := r.Cancel(ctx, chat, pause, "ci", ""); return err }
	progress := func(pause string) error { return r.Progress(ctx, chat, pause, "ci", tool.Progress{Message: "half"}) }
	for name, do := range map[string]func(string) error{"cancel": cancel, "progress": progress} {
		if err := do(tool.PauseID(first.Call, 2)); !errors.Is(err, session.ErrUnknownPause) {
			t.Errorf("%s of a pause that nobody asked for: %v", name, err)
		}
	}
	must(t, progress(first.ID))

	_, err := r.Resume(ctx, chat, runner.Complete(first.ID, "ci", text("v")))
	must(t, err)
	for name, do := range map[string]func(string) error{"cancel": cancel, "progress": progress} {
		if err := do(first.ID); !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s of an answered pause: %v", name, err)
		}
	}
	second := r.carryOn().finished(event.FinishPaused).pause("job")
	for name, do := range map[string]func(string) error{"cancel": cancel, "progress": progress} {
		if err := do(first.ID); !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s of an answered pause, while the next is open: %v", name, err)
		}
	}
	must(t, cancel(second.ID))
	if receipt, err := r.Cancel(ctx, chat, second.ID, "ci", ""); err != nil || !receipt.Duplicate {
		t.Errorf("cancelled again: %+v, %v", receipt, err)
	}
	if err := cancel(first.ID); !errors.Is(err, session.ErrCancelled) {
		t.Errorf("cancel of an answered pause of a cancelled call: %v", err)
	}
	r.carryOn().finished(event.FinishStop)
}
