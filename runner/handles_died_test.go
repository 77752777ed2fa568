package runner_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A question whose body has died is asked no more: the body that runs in its
// place is shown as running, and takes input, also a model's. What it asks
// itself is a question.
func TestAQuestionDiesWithItsBody(t *testing.T) {
	for name, wrap := range engineKinds {
		for _, paused := range []bool{false, true} {
			what := name + ", killed"
			if paused {
				what = name + ", paused"
			}
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					own := rawTool{tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
						Input:   json.RawMessage(`{"type":"object","properties":{}}`),
						Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}}, asksFirst(paused)}
					model := fakellm.New(fakellm.Says("Hi."),
						fakellm.Calls("build", `{"action":"apply","id":"a","input":"one"}`), fakellm.Says("Done."))
					r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{kept(t, own)}},
						&rigOptions{memory: true, wrap: wrap})
					r.say("Hello.").finished(event.FinishStop)
					s := r.spawned("a", "build", `{}`)
					synctest.Wait()
					if c, err := r.store.Content(t.Context(), s.Session, s.Call); err != nil || c == nil ||
						c.Question == nil {
						t.Fatalf("no question is stored: %+v, %v", c, err)
					}
					if paused {
						time.Sleep(time.Hour)
					} else {
						r.restart()
						_, err := r.Fetch(t.Context(), chat, "a", user)
						must(t, err)
						time.Sleep(public.DefaultLease + public.DefaultLease/10)
					}
					_, err := r.Fetch(t.Context(), chat, "a", user)
					must(t, err)
					synctest.Wait()
					h, err := r.Fetch(t.Context(), chat, "a", user)
					must(t, err)
					if h.State != tool.HandleRunning || h.Content.Question != nil || h.Content.Total != 1 {
						t.Fatalf("it runs anew, and is %s: %+v", h.State, h.Content)
					}
					r.say("Go on.").finished(event.FinishStop)
					if h := r.sees("a", asksLive); h.State != tool.HandleWaiting {
						t.Errorf("it asks, and is %s", h.State)
					}
					_, err = r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Delivery: "2",
						Value: json.RawMessage(`"two"`)})
					must(t, err)
					if h := r.awaited("a"); string(h.Output) != `"two"` {
						t.Errorf("%s: %s", h.Status, h.Output)
					}
					r.told(0)
				})
			})
		}
	}
}

// asksFirst is a body that asks a person when it is entered first, and then dies,
// or pauses. The next asks once it has an input, and the next input is its
// result.
func asksFirst(pauses bool) func(context.Context, tool.Call) (tool.Execution, error) {
	var entries atomic.Int32
	return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
		live := c.Host.(tool.Live)
		asks := func() {
			live.Produce(ctx, c, tool.Content{Total: 1, Tail: "?",
				Question: &tool.LiveQuestion{ID: "q", Text: "Deploy?"}})
		}
		if entries.Add(1) == 1 {
			asks()
			if !pauses {
				<-ctx.Done()
				return tool.Execution{}, ctx.Err()
			}
			time.Sleep(time.Minute)
			return tool.Execution{Await: &tool.Await{Reason: tool.ReasonTimer, Timeout: time.Minute}}, nil
		}
		_, last, err := live.NextMail(ctx, c, 0)
		if err != nil {
			return tool.Execution{}, err
		}
		asks()
		mail, _, err := live.NextMail(ctx, c, last)
		if err != nil {
			return tool.Execution{}, err
		}
		return tool.Execution{Output: mail[0].Payload}, nil
	}
}
