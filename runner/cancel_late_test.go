package runner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A layer doesn't look at its context, and calls next when the call was cancelled, or its caller has left. The body isn't entered.
func TestTooLateForTheBody(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Idempotent, tool.Once} {
		for _, how := range []string{"cancelled", "left"} {
			t.Run(string(effect)+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n counter
					entered, release := make(chan struct{}), make(chan struct{})
					slow := toolLayer("slow", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
						close(entered)
						<-release
						return next(ctx, c)
					})
					r := newRig(t, oneCall(instant("charge", effect, &n), slow), &rigOptions{memory: true})
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					ended := make(chan *seen, 1)
					go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil)) }()
					<-entered
					if how == "left" {
						cancel()
					} else {
						_, err := r.Cancel(context.Background(), chat, r.onlyCall(), "bob", "stop")
						must(t, err)
					}
					<-ended
					close(release)
					synctest.Wait()
					if got := n.get("charge"); got != 0 {
						t.Errorf("the body was entered %d times", got)
					}
				})
			})
		}
	}
}

// A call is cancelled while its layers run, which settles it, and with it the turn. They are told, and the run ends.
func TestCancelledInItsLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		entered := make(chan struct{})
		slow := toolLayer("slow", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
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

// The layers of a call don't stop when it is cancelled, or the session is. The body was never entered, and the model is told so, rather than
// that nobody knows.
func TestLayersThatDoNotStop(t *testing.T) {
	for _, how := range []string{"the call", "the session"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				entered, release := make(chan struct{}), make(chan struct{})
				stubborn := toolLayer("stubborn", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
					close(entered)
					<-release
					return next(ctx, c)
				})
				r := newRig(t, oneCall(instant("charge", tool.Once, &n), stubborn), &rigOptions{memory: true})
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
				if st.Settled != event.Cancelled || !strings.Contains(string(st.Output), "The tool was not run.") || n.get("charge") != 0 {
					t.Errorf("it is %s with %s, and was entered %d times", st.Settled, st.Output, n.get("charge"))
				}
			})
		})
	}
}

// Reconcile is interrupted, by its caller or by Close: it is asked again, and what it knows counts.
func TestReconcileIsInterrupted(t *testing.T) {
	for _, how := range []string{"left", "closed"} {
		t.Run(how, func(t *testing.T) {
			asked, knows := make(chan struct{}, 3), false
			r := crash(t, tool.Spec{Name: "pay", Reconcile: func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				if knows {
					return tool.Execution{Output: text("paid")}, nil
				}
				asked <- struct{}{}
				<-ctx.Done()
				return tool.Execution{}, ctx.Err()
			}}, func(tool.Call) tool.Result[textOut] { return tool.Done(textOut{"paid"}) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() { watch(t, r.Continue(ctx, chat, user)); close(ended) }()
			<-asked
			if how == "left" {
				cancel()
			}
			_ = r.Close()
			<-ended
			knows = true
			r.restart()
			r.carryOn().finished(event.FinishStop)
			if res := r.result(r.transcript().History[1].ToolCalls()[0].ID); string(res.Output) != string(text("paid")) {
				t.Errorf("the result is %s", res.Output)
			}
		})
	}
}

// A lost call is cancelled while its tool is asked what became of it: it isn't put before an operator any more.
func TestCancelledDuringReconcile(t *testing.T) {
	asked := make(chan struct{}, 3)
	r := crash(t, tool.Spec{Name: "pay", AskOperator: true, Reconcile: func(ctx context.Context, c tool.Call) (tool.Execution, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return tool.Execution{}, ctx.Err()
	}}, func(tool.Call) tool.Result[textOut] { return tool.Done(textOut{"paid"}) })
	call := r.onlyCall()
	go func() {
		<-asked
		if _, err := r.Cancel(context.Background(), chat, call, "bob", "stop"); err != nil {
			t.Error(err)
		}
	}()
	r.carryOn().finished(event.FinishStop)
	c, err := r.Call(t.Context(), chat, call, user)
	must(t, err)
	if c.Settled != event.Unknown || !strings.Contains(string(c.Output), "Cancelled") {
		t.Errorf("it ended as %s, with %s", c.Settled, c.Output)
	}
}

// Somebody cancels the session and the caller leaves: it stays cancelled.
func TestLeavingACancelledSession(t *testing.T) {
	r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Hello world, hello."))}, nil)
	for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		if _, ok := ev.(event.TextDelta); ok {
			must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
			break
		}
	}
	if got := r.transcript(); got.Finish != event.FinishCancelled || got.Why != "enough" {
		t.Errorf("it is %q, since %q", got.Finish, got.Why)
	}
}

// A session is cancelled whose caller has left a body behind, which doesn't stop: after the grace its call is settled.
func TestCancelSessionOfABodyLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan string, 1), make(chan struct{})
		r := newRig(t, agent.Config{Tools: []tool.Tool{stubborn(entered, release)}, Model: messages(calls("slow", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-entered; cancel() }()
		watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		call := r.onlyCall()
		must(t, r.CancelSession(context.Background(), chat, "bob", "stop"))
		time.Sleep(11 * time.Second)
		c, err := r.Call(context.Background(), chat, call, user)
		must(t, err)
		if c.Settled != event.Unknown {
			t.Errorf("it is %s %s", c.Status, c.Settled)
		}
		close(release)
		synctest.Wait()
	})
}

// A call that pauses again and again with artifacts fails in the end, rather than making its session one that can't be stored.
func TestArtifactsOfManyPauses(t *testing.T) {
	c := newClock()
	r := newRig(t, agent.Config{Tools: []tool.Tool{polling{}}, Model: messages(calls("poll", `{}`), says("Enough."))},
		&rigOptions{memory: true, session: &session.Options{Now: c.now}})
	end := r.say("Go.").finished(event.FinishPaused).end
	for n := 0; end.Finish == event.FinishPaused && n < 2000; n++ {
		c.pass(2 * time.Minute)
		end = r.carryOn().end
	}
	if end.Finish != event.FinishStop || !r.result(r.transcript().History[1].ToolCalls()[0].ID).Error {
		t.Errorf("it ended as %q", end.Finish)
	}
	e, err := r.kv.Get(t.Context(), kvstore.Key("h", chat))
	must(t, err)
	if len(e.Value) > 32<<10 {
		t.Errorf("the head has %d bytes", len(e.Value))
	}
}

// polling looks every minute, and makes something each time.
type polling struct{}

func (polling) Spec() tool.Spec {
	return tool.Spec{Name: "poll", Description: "Polls.", Effect: tool.Idempotent, MayPause: true, Input: []byte(`{"type":"object","properties":{}}`)}
}

func (polling) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{
		Await:   &tool.Await{Reason: tool.ReasonTimer, Timeout: time.Minute},
		Actions: []tool.Action{{Artifact: &tool.Artifact{Name: "log", MediaType: "text/plain", Data: []byte("still waiting")}}},
	}, nil
}

// A worker is there, and a long Run holds the session. An answer comes right after: the worker doesn't wait for a minute.
func TestWorkerAfterALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		script := messages(calls("job", `{"text":"j"}`), says("Done."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
			Model: modelFunc(func(req llm.Request) []llm.Event {
				if len(req.Messages) == 1 {
					time.Sleep(30 * time.Second)
				}
				return script(req)
			})}, &rigOptions{memory: true})
		ctx, cancel := context.WithCancel(context.Background())
		var done time.Time
		worked := make(chan struct{})
		go func() {
			_ = r.Work(ctx, &runner.WorkOptions{SweepEvery: -1, OnEvent: func(_ string, ev event.Event, _ error) {
				if _, ok := ev.(event.End); ok {
					done = time.Now()
					cancel()
				}
			}})
			close(worked)
		}()
		p := watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
		answered := time.Now()
		_, err := r.Resume(context.Background(), chat, runner.Complete(p.ID, "ci", text("v")))
		must(t, err)
		<-worked
		if late := done.Sub(answered); late > 500*time.Millisecond {
			t.Errorf("the worker came %v later", late)
		}
	})
}
