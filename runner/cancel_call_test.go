package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestCancelWhileRunning(t *testing.T) {
	done := func(context.Context) (tool.Result[textOut], error) {
		return tool.Done(textOut{"done"}), nil
	}
	for _, c := range []struct {
		name   string
		effect tool.Effect
		end    func(context.Context) (tool.Result[textOut], error) // once the body's context has ended
		status event.Status
		says   string // to the model
		fate   session.Fate
	}{
		{"it returns a result", tool.Once, done, event.Done, "done", session.Superseded},
		{"it returns a result, idempotent", tool.Idempotent, done, event.Done,
			"done", session.Superseded},
		{"it returns an error", tool.Once,
			func(ctx context.Context) (tool.Result[textOut], error) {
				return nil, ctx.Err()
			}, event.Cancelled, "had begun", ""},
		{"it returns an error, idempotent", tool.Idempotent,
			func(ctx context.Context) (tool.Result[textOut], error) {
				return nil, ctx.Err()
			}, event.Cancelled, "had begun", ""},
		{"it asks to pause", tool.Once,
			func(context.Context) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), nil
			},
			event.Cancelled, "had begun", ""},
		{"it goes on", tool.Once, nil, event.Unknown, "unknown", ""},
		{"it goes on, idempotent", tool.Idempotent, nil, event.Cancelled, "had begun", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entered, let := make(chan string, 1), make(chan struct{})
				deploy := tool.Must(tool.Func(tool.Spec{Name: "deploy",
					Effect: c.effect, MayPause: true},
					func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
						entered <- tool.CallFrom(ctx).ID
						if <-ctx.Done(); c.end == nil {
							<-let
							return tool.Done(textOut{"too late"}), nil
						}
						return c.end(ctx)
					}))
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{deploy},
					Model: fakellm.New(fakellm.Calls("deploy", `{"text":"a"}`),
						fakellm.Says("I see.")),
				}, &rigOptions{memory: true})
				ended := r.begin("Deploy.")
				call := <-entered
				receipt, err := r.Cancel(t.Context(), chat, call, "ada", "wrong version")
				if err != nil || receipt.Duplicate {
					t.Fatalf("Cancel: %+v, %v", receipt, err)
				}
				ended().finished(event.FinishStop)
				close(let)
				synctest.Wait() // what comes too late has come
				st, err := r.Call(t.Context(), chat, call, user)
				must(t, err)
				if st.Settled != c.status || !strings.Contains(string(st.Output), c.says) {
					t.Errorf("it settled as %s with %s", st.Settled, st.Output)
				}
				if c.status != event.Done && (st.Actor != "ada" ||
					!strings.Contains(string(st.Output), "wrong version")) {
					t.Errorf("it doesn't say who cancelled it, or why: %s, %s", st.Actor, st.Output)
				}
				if len(st.Receipts) != 1 || st.Receipts[0].Fate != c.fate {
					t.Errorf("the receipts are %+v", st.Receipts)
				}
				if again, err := r.Cancel(t.Context(), chat, call, "bob", "me too"); err != nil ||
					!again.Duplicate || again.Actor != "ada" {
					t.Errorf("cancelled again: %+v, %v", again, err)
				}
				r.result(call)
				r.acceptable()
			})
		})
	}
}

// An error that a body returns of itself, just after its call was cancelled, is
// the end of a cancelled call all the same.
func TestCancelledBodyFailsByItself(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var r *rig
			act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: effect},
				func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
					if _, err := r.Cancel(ctx, chat, tool.CallFrom(ctx).ID,
						"ada", "stop"); err != nil {
						t.Error(err)
					}
					return nil, errors.New("of its own")
				}))
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{act},
				Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("I see.")),
			}, nil)
			r.say("Act.").finished(event.FinishStop)
			if st, err := r.Call(t.Context(), chat, r.onlyCall(), user); err != nil ||
				st.Settled != event.Cancelled || st.Actor != "ada" {
				t.Errorf("it settled as %s by %q, %v", st.Settled, st.Actor, err)
			}
		})
	}
}

func TestSettledIsFinal(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name   string
		settle func(r *rig, p tool.Pause)
		status event.Status
		is     error // what latecomers are told
	}{
		{"by an answer", func(r *rig, p tool.Pause) {
			r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
		}, event.Done, session.ErrSettled},
		{"by a failure", func(r *rig, p tool.Pause) {
			r.answer(runner.Fail(p.ID, "ci", "no disk", false)).finished(event.FinishStop)
		}, event.Failed, session.ErrSettled},
		{"by a cancellation", func(r *rig, p tool.Pause) {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "ada", "")
			must(r.t, err)
			r.carryOn().finished(event.FinishStop)
		}, event.Cancelled, session.ErrCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
					fakellm.Says("I see.")),
			}, nil)
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			c.settle(r, p)
			before := r.result(p.Call)
			told := func(what string, err error) {
				t.Helper()
				var settled *session.SettledError
				var conflict *session.ConflictError
				switch {
				case errors.As(err, &settled):
					if settled.Status != c.status || !errors.Is(err, c.is) {
						t.Errorf("%s is told %v", what, err)
					}
				case errors.As(err, &conflict) && c.status != event.Cancelled:
				default:
					t.Errorf("%s is told %v", what, err)
				}
			}
			for _, rs := range []runner.Resumption{
				runner.Complete(p.ID, "ci", text("late")),
				runner.Complete(p.Call, "ci", text("late")),
				runner.Fail(p.ID, "ci", "late", true), runner.Approve(p.ID, "ada", ""),
				runner.Complete(session.PauseID(p.Call, 2), "ci", text("late")),
			} {
				_, err := r.Resume(t.Context(), chat, rs)
				told("an answer", err)
			}
			if c.status != event.Cancelled {
				_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "late")
				told("a cancellation", err)
			}
			told("a deadline", r.Extend(t.Context(), chat, p.ID, "ada", later))
			told("progress", r.Progress(t.Context(), chat, p.Call, user,
				tool.Progress{Message: "late"}))
			if after := r.result(p.Call); string(after.Output) != string(before.Output) ||
				after.Error != before.Error {
				t.Errorf("the result was %s, and is %s", before.Output, after.Output)
			}
		})
	}
}

// A call is cancelled while its layers run. That settles it, and with it the
// turn. The layers are told, and the run ends.
func TestCancelledInItsLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		entered := make(chan struct{})
		slow := toolLayer("slow",
			func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
				close(entered)
				<-ctx.Done()
				return tool.Execution{}, ctx.Err()
			})
		r := newRig(t, oneCall(instant("charge", tool.Once, &n), slow), &rigOptions{memory: true})
		ended := make(chan *seen, 1)
		go func() {
			ended <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
		}()
		<-entered
		_, err := r.Cancel(context.Background(), chat, r.onlyCall(), "bob", "stop")
		must(t, err)
		(<-ended).finished(event.FinishStop)
		if n.get("charge") != 0 {
			t.Error("the body was entered")
		}
	})
}

// The layers of a call don't stop when it, or its session, is cancelled. The
// body was never entered, and so the model is told: its outcome isn't unknown.
func TestLayersThatDoNotStop(t *testing.T) {
	for _, how := range []string{"the call", "the session"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				entered, release := make(chan struct{}), make(chan struct{})
				stubborn := toolLayer("stubborn",
					func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
						close(entered)
						<-release
						return next(ctx, c)
					})
				r := newRig(t, oneCall(instant("charge", tool.Once, &n), stubborn),
					&rigOptions{memory: true})
				ended := r.begin("Go.")
				<-entered
				call := r.onlyCall()
				if how == "the call" {
					must2(r.Cancel(t.Context(), chat, call, "bob", "stop"))
				} else {
					must(t, r.CancelSession(t.Context(), chat, "bob", "stop"))
				}
				ended()
				close(release)
				synctest.Wait()
				st := must2(r.Call(t.Context(), chat, call, user))
				if st.Settled != event.Cancelled ||
					!strings.Contains(string(st.Output), "The tool was not run.") ||
					n.get("charge") != 0 {
					t.Errorf("it is %s with %s, and was entered %d times", st.Settled,
						st.Output, n.get("charge"))
				}
			})
		})
	}
}

// The caller has left, and the body goes on. A caller that cancels the call
// then doesn't wait for the body without end.
func TestCancelAfterTheCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan string, 1), make(chan struct{})
		r := newRig(t, agent.Config{Tools: []tool.Tool{stubborn(entered, release)},
			Model: messages(calls("slow", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var call string
		for ev := range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
			if e, ok := ev.(event.Call); ok {
				call = e.Call.ID
				time.AfterFunc(time.Second, cancel)
			}
		}
		_, err := r.Cancel(context.Background(), chat, call, user, "enough")
		must(t, err)
		time.Sleep(11 * time.Second)
		got, err := r.Call(context.Background(), chat, call, user)
		must(t, err)
		if got.Settled != event.Unknown {
			t.Errorf("after the grace the call is %s %s", got.Status, got.Settled)
		}
		watch(t, r.Continue(context.Background(), chat, user)).finished(event.FinishStop)
		close(release)
		synctest.Wait()
		r.acceptable()
	})
}

// TestCancelledFromAnotherProcess: it sends no signal to the driver's process;
// the driver looks by itself.
func TestCancelledFromAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		act := does(tool.Spec{Name: "act"},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		model := fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("I see."))
		r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{act}},
			&rigOptions{memory: true, wrap: hidden})
		ended := r.begin("Go.")
		synctest.Wait()
		start := time.Now()
		_, err := r.another().Cancel(t.Context(), chat, r.onlyCall(), "bob", "enough")
		must(t, err)
		run := ended().finished(event.FinishStop)
		if res := of[event.Result](run); len(res) != 1 || res[0].Status != event.Cancelled ||
			res[0].Actor != "bob" {
			t.Errorf("the call ended as %+v", res)
		}
		if took := time.Since(start); took > session.DefaultLease/3 {
			t.Errorf("the driver heard of it after %v", took)
		}
	})
}
