package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// passing is a turn layer that hands everything on.
var passing = interceptor.Layer{Name: "passing", Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
	return func(ctx context.Context, turn interceptor.Turn) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			for ev, err := range next(ctx, turn) {
				if !yield(ev, err) {
					return
				}
			}
		}
	}
}}

// busyAgent is an agent whose run shows every kind of event: three calls side by side, one of which waits.
func busyAgent(n *counter, layers ...interceptor.Layer) agent.Config {
	make := does(tool.Spec{Name: "make"}, func(ctx context.Context, s string) (tool.Result[textOut], error) {
		n.add("make " + s)
		err := tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "half"})
		return tool.Done(textOut{s}), err
	})
	return agent.Config{
		Model: fakellm.New(
			fakellm.Reasons("Hm.").Says("I will see.").And("make", `{"text":"a"}`).And("job", `{"text":"b"}`).And("make", `{"text":"c"}`),
			fakellm.Says("All is done.").Chunks(4)),
		Tools: []tool.Tool{make, waiting("job", tool.Once, n)}, Interceptors: layers,
	}
}

// finish carries the session on until the model has said its last, and checks that nothing was done twice or lost.
func (r *rig) finish(n *counter) {
	r.t.Helper()
	run := r.carryOn()
	if r.transcript().Messages == 0 {
		run = r.say("Go.")
	}
	for range 3 {
		for _, p := range run.end.Pending {
			_, err := r.Resume(r.t.Context(), chat, runner.Complete(p.ID, "ci", text("b")))
			must(r.t, err)
		}
		if run.end.Finish == event.FinishStop {
			break
		}
		run = r.carryOn()
	}
	run.finished(event.FinishStop)
	history := r.transcript().History
	if len(history) != 4 || history[3].Text() != "All is done." {
		r.t.Errorf("the history is %v", history)
	}
	for _, what := range []string{"make a", "make c", "job"} {
		if n.get(what) != 1 {
			r.t.Errorf("%s was entered %d times", what, n.get(what))
		}
	}
	r.acceptable()
}

// TestLeavingAtEachEvent: a listener that goes at the n-th event, for each n, in each way, harms nothing: the session is free at
// once, or when its bodies have ended, and is carried on from there.
func TestLeavingAtEachEvent(t *testing.T) {
	leave := map[string]func(ctx context.CancelFunc) bool{
		"by break":   func(context.CancelFunc) bool { return true },
		"by cancel":  func(cancel context.CancelFunc) bool { cancel(); return false },
		"by panic":   func(context.CancelFunc) bool { panic("the listener panics") },
		"by Goexit":  func(context.CancelFunc) bool { runtime.Goexit(); return true },
		"by nothing": func(context.CancelFunc) bool { return false },
	}
	for how, leaves := range leave {
		for _, layers := range []interceptor.Chain{nil, {passing}} {
			t.Run(fmt.Sprintf("%s through %d layers", how, len(layers)), func(t *testing.T) {
				for n, events := 1, 1; n <= events; n++ {
					synctest.Test(t, func(t *testing.T) {
						var entered counter
						r := newRig(t, busyAgent(&entered, layers...), &rigOptions{memory: true})
						events = leaveAt(r, n, leaves) + 1
						r.idle()
						r.finish(&entered)
					})
				}
			})
		}
	}
}

// leaveAt runs a user's message, and leaves at the n-th event; it says how many there were.
func leaveAt(r *rig, n int, leave func(context.CancelFunc) bool) (events int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }()
		for range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
			if events++; events == n && leave(cancel) {
				break
			}
		}
	}()
	<-over
	return events
}

// idle fails the test if a drive holds the session although nothing happens any more.
func (r *rig) idle() {
	r.t.Helper()
	synctest.Wait()
	st, err := r.store.Load(r.t.Context(), chat)
	if errors.Is(err, session.ErrUnknownSession) {
		return
	}
	must(r.t, err)
	if driven, _ := r.store.Driven(st); driven {
		r.t.Error("a drive holds the session for good")
	}
}

// TestCallingBackFromTheLoop: a listener may use the runner while it looks at an event, whichever it is.
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
		"Show": {func(ctx context.Context, r *rig, _ event.Event) error { _, err := r.Show(ctx, chat, user); return err }, nil},
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
				return errors.Join(err, watch(r.t, res.Events(ctx)).finished(event.FinishElsewhere).err)
			}
			return nil
		}, nil},
	} {
		for _, layers := range []interceptor.Chain{nil, {passing}} {
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
