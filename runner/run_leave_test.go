package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestLeavingTheLoop(t *testing.T) {
	for _, how := range []string{"break", "cancel"} {
		synctest.Test(t, func(t *testing.T) {
			entered, release := make(chan string, 9), make(chan struct{})
			r := newRig(t, agent.Config{
				Concurrency: 1,
				Tools:       []tool.Tool{stubborn(entered, release)},
				Model: messages(calls("slow", `{"text":"a"}`,
					"slow", `{"text":"b"}`), says("Done.")),
			}, &rigOptions{
				memory: true, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)},
			})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			start := time.Now()
			go func() {
				<-entered
				if how == "cancel" {
					cancel()
				} else {
					// something to break at
					must(t, r.Progress(ctx, chat, openCall(r), user,
						tool.Progress{Message: "half"}))
				}
			}()
			var last event.Event
			for ev, err := range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
				if last = ev; err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if _, ok := ev.(event.Progress); ok && how == "break" {
					break
				}
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("%s: Run returned after %v", how, took)
			}
			if end, _ := last.(event.End); how == "cancel" &&
				end.Finish != event.FinishInterrupted {
				t.Errorf("it ended with %v", last)
			}
			// The body goes on, under the lease, and its result is recorded.
			if err := watch(t, r.Continue(context.Background(),
				chat, user)).err; !errors.Is(err, session.ErrBusy) {
				t.Errorf("%s: while the body runs, Continue gets %v", how, err)
			}
			close(release)
			synctest.Wait()
			working, stop := context.WithCancel(context.Background())
			worked := make(chan error)
			go func() { worked <- r.Work(working, nil) }()
			time.Sleep(time.Hour)
			stop()
			<-worked
			if len(entered) > 0 || r.transcript().Finish != event.FinishInterrupted {
				t.Errorf("%s: a worker carried on a session that was left", how)
			}
			watch(t, r.Continue(context.Background(), chat, user)).finished(event.FinishStop)
			for _, p := range r.transcript().History[2].Parts {
				if res := p.(llm.ToolResult); res.Error ||
					string(res.Output) != string(text("in the end")) {
					t.Errorf("%s: the result is %s", how, res.Output)
				}
			}
			r.acceptable()
		})
	}
}

// A run that ends because its caller leaves, or the runner is closed, has not
// failed: its last event says how the session stands.
func TestLastEventOfARunThatWasLeft(t *testing.T) {
	for name, c := range map[string]struct {
		detached, waits, closed bool
		want                    event.Finish
	}{
		"":                    {want: event.FinishInterrupted},
		"detached":            {detached: true, want: event.FinishInterrupted},
		"closed":              {closed: true, want: event.FinishInterrupted},
		"a call waits":        {waits: true, want: event.FinishPaused},
		"detached, one waits": {detached: true, waits: true, want: event.FinishPaused},
		"closed, one waits":   {closed: true, waits: true, want: event.FinishPaused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				entered := make(chan struct{})
				slow := does(tool.Spec{Name: "slow"},
					func(ctx context.Context, _ string) (tool.Result[textOut], error) {
						close(entered)
						<-ctx.Done()
						return nil, ctx.Err()
					})
				asked := calls("slow", `{"text":"a"}`)
				if c.waits {
					asked = append(asked, calls("deploy", `{"text":"job"}`)...)
				}
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{slow, waiting("deploy", tool.Once, &n)},
					Model: messages(asked, says("Done.")),
				},
					&rigOptions{memory: true})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				ended := make(chan *seen)
				go func() {
					ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."),
						&runner.RunOptions{Detached: c.detached}))
				}()
				<-entered
				synctest.Wait()
				if c.closed {
					r.Close()
				} else {
					cancel()
				}
				s := <-ended
				// A body that ends at once leaves nothing to do but wait; one
				// that is still ending is part of what was interrupted.
				if got := s.end.Finish; got != c.want && (!c.waits ||
					got != event.FinishInterrupted) || s.err == nil {
					t.Errorf("it ended as %q, with %v", got, s.err)
				}
				if waits := len(s.end.Pending) > 0; waits != c.waits {
					t.Errorf("%d calls wait", len(s.end.Pending))
				}
			})
		})
	}
}

// openCall is the first call of the open turn that is not settled.
func openCall(r *rig) string {
	st, err := r.store.Load(context.Background(), chat)
	must(r.t, err)
	for _, c := range st.Calls {
		if c.Status != session.Settled {
			return c.ID
		}
	}
	return ""
}

func TestDetachedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{instant("look", tool.ReadOnly, &n)},
			Model: messages(calls("look", `{"text":"a"}`), says("Done.")),
		}, &rigOptions{memory: true})
		for ev := range r.Run(context.Background(), user, chat, llm.UserText("Go."),
			&runner.RunOptions{Detached: true}) {
			if _, ok := ev.(event.Call); ok {
				break
			}
		}
		working, stop := context.WithCancel(context.Background())
		worked := make(chan error)
		go func() { worked <- r.Work(working, nil) }()
		time.Sleep(10 * time.Second)
		stop()
		<-worked
		if got := r.transcript(); got.Finish != event.FinishStop || len(got.History) != 4 {
			t.Errorf("after a worker had time, it is %q with %d messages",
				got.Finish, len(got.History))
		}
	})
}

// TestLeavingAtEachEvent: a listener that goes at the n-th event, for each n,
// in each way, harms nothing: the session is free at once, or when its bodies
// have ended, and is carried on from there.
func TestLeavingAtEachEvent(t *testing.T) {
	leave := map[string]func(ctx context.CancelFunc) bool{
		"by break":   func(context.CancelFunc) bool { return true },
		"by cancel":  func(cancel context.CancelFunc) bool { cancel(); return false },
		"by panic":   func(context.CancelFunc) bool { panic("the listener panics") },
		"by Goexit":  func(context.CancelFunc) bool { runtime.Goexit(); return true },
		"by nothing": func(context.CancelFunc) bool { return false },
	}
	for how, leaves := range leave {
		for _, layers := range []interceptor.Chain{nil, {passesTurns}} {
			t.Run(fmt.Sprintf("%s through %d layers", how, len(layers)), func(t *testing.T) {
				for n, events := 1, 1; n <= events; n += testlength.Step(3) {
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

// leaveAt runs a user's message, and leaves at the n-th event; it says how many
// there were.
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

// TestLeavingBodiesThatIgnoreIt: Run returns when its context ends, not when
// the slowest body does. What the bodies return is recorded, in call order, and
// isn't shown.
func TestLeavingBodiesThatIgnoreIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := does(tool.Spec{Name: "deaf"},
			func(_ context.Context, what string) (tool.Result[textOut], error) {
				d, _ := time.ParseDuration(what)
				time.Sleep(d)
				return tool.Done(textOut{what}), nil
			})
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("deaf", "300ms", "200ms", "100ms"), fakellm.Says("I see.")),
			Tools: []tool.Tool{deaf},
		}, &rigOptions{memory: true})
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		start := time.Now()
		run := watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		if took := time.Since(start); took != 25*time.Millisecond ||
			run.end.Finish != event.FinishInterrupted || len(of[event.Result](run)) != 0 {
			t.Errorf("it returned after %v, as %q with %v", took, run.end.Finish, run.events)
		}
		time.Sleep(time.Second)
		r.idle()
		r.carryOn().finished(event.FinishStop)
		for i, p := range r.transcript().History[2].Parts {
			if res := p.(llm.ToolResult); res.Error ||
				string(res.Output) != string(text([]string{"300ms", "200ms", "100ms"}[i])) {
				t.Errorf("result %d is %s", i, res.Output)
			}
		}
		r.acceptable()
	})
}
