package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A body that ends when its context does has its result recorded before Close
// returns; one that ignores its context loses the lease when Close's time is
// over, and what it comes back with is refused.
func TestClose(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			slow := tool.Must(tool.Func(tool.Spec{Name: "slow", Description: "s"},
				func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
					close(entered)
					if ignores {
						<-release
						return tool.Done("late"), nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}))
			r := newRig(t, agent.Config{Tools: []tool.Tool{slow},
				Model: messages(calls("slow", `{}`), says("Done."))},
				&rigOptions{
					memory: true, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)},
				})
			ran := make(chan *seen)
			go func() {
				ran <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
			}()
			<-entered
			start := time.Now()
			err := r.Close()
			run := <-ran
			if !errors.Is(run.err, runner.ErrClosed) {
				t.Errorf("the run ended with %v", run.err)
			}
			if took := time.Since(start); ignores != (err != nil) ||
				ignores != (took >= 10*time.Second) {
				t.Errorf("a body that ignores its context: %v; Close took %v: %v", ignores,
					took, err)
			}
			close(release)
			synctest.Wait()
			if err := watch(t, r.Continue(context.Background(),
				chat, user)).err; !errors.Is(err, runner.ErrClosed) {
				t.Errorf("a closed runner answers %v", err)
			}
			// Another process carries the session on: no caller had left it.
			r.open()
			watch(t, r.Continue(context.Background(), chat, user)).finished(event.FinishStop)
			history := r.transcript().History
			if got := string(history[2].Parts[0].(llm.ToolResult).Output); strings.Contains(got, "late") {
				t.Errorf("a result that came after Close is recorded: %s", got)
			}
			r.acceptable()
		})
	}
}

// TestCloseAtEachEvent: beside the loop or from within it, Close returns within
// its bound, the run ends, and another runner carries the session on.
func TestCloseAtEachEvent(t *testing.T) {
	for _, within := range []bool{false, true} {
		for _, layers := range []interceptor.Chain{nil, {passesTurns}} {
			t.Run(fmt.Sprintf("from within: %v, through %d layers", within, len(layers)),
				func(t *testing.T) {
					for n, events := 1, 2; n < events; n++ {
						synctest.Test(t, func(t *testing.T) {
							var c counter
							r := newRig(t, busyAgent(&c, layers...), &rigOptions{memory: true})
							closing := make(chan error, 1)
							closeIt := func() {
								start := time.Now()
								err := r.Close()
								if took := time.Since(start); took > 10*time.Second || took > 0 &&
									!within {
									t.Errorf("Close took %v", took)
								}
								closing <- err
							}
							events = 0
							run := &seen{t: t}
							for ev, err := range r.Run(t.Context(), user, chat,
								llm.UserText("Go."), nil) {
								if events++; events == n && within {
									closeIt()
								} else if events == n {
									go closeIt()
									synctest.Wait()
								}
								run.events, run.err = append(run.events, ev),
									errors.Join(run.err, err)
								if e, ok := ev.(event.End); ok {
									run.end = e
								}
							}
							if err := <-closing; (err != nil) != (within && n < events) {
								t.Errorf("at event %d of %d: Close: %v", n, events, err)
							}
							if run.end.Session != chat {
								t.Errorf("at event %d, the run ended as %+v", n, run.end)
							}
							if err := watch(t, r.Run(t.Context(), user, chat,
								llm.UserText("More."), nil)).err; !errors.Is(err,
								runner.ErrClosed) {
								t.Errorf("Run on a closed runner: %v", err)
							}
							r.open()
							r.finish(&c)
						})
					}
				})
		}
	}
}

// TestCloseEndsEverything: workers, followers and streams of models, none of
// which outlive it.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		act := does(tool.Spec{Name: "act"},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				close(entered)
				<-ctx.Done()
				return nil, ctx.Err()
			})
		r := newRig(t, oneCall(act), &rigOptions{memory: true})
		ends := make(chan error, 3)
		go func() { ends <- r.Work(t.Context(), nil) }()
		go func() {
			ends <- watch(t, r.Run(t.Context(), user, chat, llm.UserText("Go."), nil)).err
		}()
		<-entered
		go func() { ends <- watch(t, r.Follow(t.Context(), chat, user, nil)).err }()
		synctest.Wait()
		must(t, r.Close())
		for range 3 {
			if err := <-ends; !errors.Is(err, runner.ErrClosed) {
				t.Errorf("it ended with %v", err)
			}
		}
		must(t, r.Close()) // twice does no harm
		if err := r.Work(t.Context(), nil); !errors.Is(err, runner.ErrClosed) {
			t.Errorf("Work on a closed runner: %v", err)
		}
	})
}

// TestAnswersAfterClose: a closed runner drives nothing, but an answer that is
// given to it isn't lost.
func TestAnswersAfterClose(t *testing.T) {
	var n counter
	r := newRig(t, oneCall(waiting("job", tool.Once, &n)), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	must(t, r.Close())
	res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
	must(t, err)
	if err := watch(t, res.Events(t.Context())).err; !errors.Is(err, runner.ErrClosed) {
		t.Errorf("its events: %v", err)
	}
	r.restart()
	r.carryOn().finished(event.FinishStop)
	r.acceptable()
}

// TestCloseWaitsForWhatATimeoutLeft: it is a goroutine of the runner's, as long
// as it runs.
func TestCloseWaitsForWhatATimeoutLeft(t *testing.T) {
	for d, ends := range map[time.Duration]bool{5 * time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			deaf := does(tool.Spec{Name: "deaf", Timeout: time.Second},
				func(context.Context, string) (tool.Result[textOut], error) {
					time.Sleep(time.Second + d)
					return tool.Done(textOut{"late"}), nil
				})
			r := newRig(t, oneCall(deaf), &rigOptions{memory: true})
			r.say("Go.").finished(event.FinishStop)
			start := time.Now()
			err := r.Close()
			if took := time.Since(start); took != min(d, 10*time.Second) || (err == nil) != ends {
				t.Errorf("a body that runs for %v more: Close took %v: %v", d, took, err)
			}
			time.Sleep(time.Minute)
		})
	}
}
