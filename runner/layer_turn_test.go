package runner_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

type turnEvents = iter.Seq2[event.Event, error]

// twoTurns is a model that calls a tool once, and a tool that counts.
func twoTurns(n *counter) (llm.Model, []tool.Tool) {
	return fakellm.New(fakellm.Says("I look.").And("look", `{"text":"a"}`), fakellm.Says("Seen.")),
		[]tool.Tool{instant("look", tool.ReadOnly, n)}
}

// TestTurnLayerSeesTurns: each by its number, those that go on after a pause
// too, with the events of its own.
func TestTurnLayerSeesTurns(t *testing.T) {
	var n counter
	var turns []interceptor.Turn
	model := fakellm.New(fakellm.Says("I look.").And("look", `{"text":"a"}`),
		fakellm.Calls("job", `{"text":"b"}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
		instant("look", tool.ReadOnly, &n), waiting("job", tool.Once, &n),
	},
		Interceptors: around(func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			turns = append(turns, turn)
			return func(yield func(event.Event, error) bool) {
				for ev, err := range next(ctx, turn) {
					if _, ok := ev.(event.TextDelta); ok {
						ev = event.TextDelta{Delta: "[hidden]"}
					}
					if !yield(ev, err) {
						return
					}
				}
			}
		})}, nil)
	run := r.say("Go.").finished(event.FinishPaused)
	r.answer(runner.Complete(run.pause("job").ID, "ci", text("b"))).finished(event.FinishStop)
	turn := func(number int, resumed bool) interceptor.Turn {
		return interceptor.Turn{Session: chat, User: user, Agent: "ops",
			Number: number, Resumed: resumed}
	}
	if want := []interceptor.Turn{
		turn(1, false), turn(2, false), turn(2, true), turn(3, false),
	}; !cmp.Equal(turns, want) {
		t.Errorf("the turns are %+v, not %+v", turns, want)
	}
	if got := of[event.TextDelta](run); len(got) != 1 || got[0].Delta != "[hidden]" {
		t.Errorf("the listener read %v", got)
	}
	if got := r.transcript().History[1].Text(); got != "I look." {
		t.Errorf("the transcript says %q", got)
	}
}

// TestTurnLayerFails: whatever a turn layer does to a turn, the run ends once,
// with an error that names it. Nothing is lost or done twice, and Continue gets
// over it.
func TestTurnLayerFails(t *testing.T) {
	broken := errors.New("over budget")
	pass := func(yield func(event.Event, error) bool, events turnEvents) {
		for ev, err := range events {
			if !yield(ev, err) {
				return
			}
		}
	}
	for name, test := range map[string]struct {
		layer func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents
		want  string
	}{
		"it does not run the turn": {func(context.Context, interceptor.Turn, interceptor.TurnHandler) turnEvents {
			return func(func(event.Event, error) bool) {}
		}, "a turn layer did not run the turn"},
		"it has an error of its own": {func(context.Context, interceptor.Turn, interceptor.TurnHandler) turnEvents {
			return func(yield func(event.Event, error) bool) { yield(nil, broken) }
		}, "over budget"},
		"it has an error afterwards": {func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			return func(yield func(event.Event, error) bool) {
				pass(yield, next(ctx, turn))
				yield(nil, broken)
			}
		}, "over budget"},
		"it stops at the first event": {func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			return func(yield func(event.Event, error) bool) {
				for ev, err := range next(ctx, turn) {
					yield(ev, err)
					return
				}
			}
		}, "a turn layer stopped in the middle of the turn"},
		"it panics": {
			func(context.Context, interceptor.Turn, interceptor.TurnHandler) turnEvents { panic("oops") }, "a turn layer panicked: oops",
		},
		"it panics amid the events": {func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			return func(yield func(event.Event, error) bool) {
				for ev, err := range next(ctx, turn) {
					yield(ev, err)
					panic("oops")
				}
			}
		}, "panicked: oops"},
		"it goes on after its listener is gone": {func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			return func(yield func(event.Event, error) bool) {
				for range next(ctx, turn) {
					yield(nil, broken)
				}
			}
		}, "a turn layer panicked: runtime error"},
		"it ends the context": {func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(broken)
			return next(ctx, turn)
		}, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			model, tools := twoTurns(&n)
			good := false
			r := newRig(t, agent.Config{Model: model, Tools: tools,
				Interceptors: around(func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
					if good {
						return next(ctx, turn)
					}
					return test.layer(ctx, turn, next)
				})}, nil)
			run := r.say("Go.")
			if run.end.Finish != event.FinishFailed || run.err == nil ||
				!strings.Contains(run.err.Error(), test.want) {
				t.Errorf("the run ended as %q with %v; it showed %v", run.end.Finish,
					run.err, run.events)
			}
			if got := r.transcript(); got.Finish != event.FinishFailed ||
				!strings.Contains(got.Why, test.want) || got.Driven {
				t.Errorf("the session is shown as %q: %s; driven: %v", got.Finish,
					got.Why, got.Driven)
			}
			good = true
			r.carryOn().finished(event.FinishStop)
			if n.get("look") != 1 || len(r.transcript().History) != 4 {
				t.Errorf("the body was entered %d times; the history is %v",
					n.get("look"), r.transcript().History)
			}
			r.acceptable()
		})
	}
}

// TestTurnLayerIsCutOff: a turn layer that ends since its process does has failed
// no run, whatever it says then. The next process carries the session on.
func TestTurnLayerIsCutOff(t *testing.T) {
	for name, says := range map[string]error{"with an error": errors.New("the budget can't be asked"),
		"without": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hangs := true
				r := newRig(t, agent.Config{Model: fakellm.Echo(),
					Interceptors: around(func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
						if !hangs {
							return next(ctx, turn)
						}
						return func(yield func(event.Event, error) bool) {
							<-ctx.Done()
							if says != nil {
								yield(nil, says)
							}
						}
					})}, &rigOptions{memory: true})
				r.send("a", "")
				r.closesAmidWork()
				hangs = false
				r.restart()
				if st := r.transcript(); st.Finish != "" {
					t.Fatalf("it stands as %q: %s", st.Finish, st.Why)
				}
				r.work(runner.WorkOptions{}, 1)
			})
		})
	}
}

// TestTurnLayerSwallowsErrors: what ended the turn ends the run, although the
// layer hides it.
func TestTurnLayerSwallowsErrors(t *testing.T) {
	deaf := around(func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
		return func(yield func(event.Event, error) bool) {
			for ev, err := range next(ctx, turn) {
				if err == nil && !yield(ev, nil) {
					return
				}
			}
		}
	})
	r := newRig(t, agent.Config{
		Model:        fakellm.New(fakellm.Fails(&llm.Error{Kind: llm.ErrAuth}), fakellm.Says("Hi.")),
		Interceptors: deaf,
	}, nil)
	if run := r.say("Hello."); run.end.Finish != event.FinishFailed || run.err == nil {
		t.Errorf("the run ended as %q with %v", run.end.Finish, run.err)
	}
	r.carryOn().finished(event.FinishStop)
}

// TestTurnLayerRunsATurnTwice: the second time there is nothing to do.
func TestTurnLayerRunsATurnTwice(t *testing.T) {
	var n counter
	model, tools := twoTurns(&n)
	r := newRig(t, agent.Config{Model: model, Tools: tools,
		Interceptors: around(func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
			return func(yield func(event.Event, error) bool) {
				for range 2 {
					for ev, err := range next(ctx, turn) {
						if !yield(ev, err) {
							return
						}
					}
				}
			}
		})}, nil)
	r.say("Go.").finished(event.FinishStop)
	if n.get("look") != 1 || len(r.transcript().History) != 4 {
		t.Errorf("the body was entered %d times; the history is %v",
			n.get("look"), r.transcript().History)
	}
}

// Inside a turn layer, too, a body is told when its call is cancelled.
func TestTurnLayerAroundACancelledBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan string, 1)
		obeys := does(tool.Spec{Name: "act"},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				entered <- tool.CallFrom(ctx).ID
				<-ctx.Done()
				return nil, ctx.Err()
			})
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{obeys}, Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
			Interceptors: around(func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents {
				return next(ctx, turn)
			}),
		}, &rigOptions{memory: true})
		ended := make(chan *seen, 1)
		go func() {
			ended <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
		}()
		call := <-entered
		_, err := r.Cancel(context.Background(), chat, call, user, "enough")
		must(t, err)
		(<-ended).finished(event.FinishStop)
		if c, err := r.Call(context.Background(), chat, call, user); err != nil ||
			c.Settled != event.Cancelled {
			t.Errorf("it is %s %s, %v", c.Status, c.Settled, err)
		}
	})
}
