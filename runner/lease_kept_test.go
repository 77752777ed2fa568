package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestSlowDrivesKeepTheirLease: where leases are stored and end by time, a drive that lives keeps its own, however long the model
// thinks, a body runs, a listener looks at an event, or a body that was left takes to end.
func TestSlowDrivesKeepTheirLease(t *testing.T) {
	const long = 10 * time.Minute
	for name, test := range map[string]struct {
		model, body, listener time.Duration
		leave                 bool // as soon as the body runs
	}{
		"the model is slow":     {model: long},
		"a body is slow":        {body: long},
		"the listener is slow":  {listener: long},
		"a body was left alone": {body: long, leave: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				act := does(tool.Spec{Name: "act"}, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
					n.add("act")
					must(t, tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "begun"}))
					time.Sleep(test.body) // whatever becomes of its context
					return tool.Done(textOut{"done"}), nil
				})
				model := fakellm.New(fakellm.Calls("act", `{"text":"a"}`).Delay(test.model, 0), fakellm.Says("Done."))
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{act}}, &rigOptions{memory: true, wrap: hidden})
				ran := make(chan *seen, 1)
				go func() {
					s := &seen{t: t}
				run:
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						s.events, s.err = append(s.events, ev), err
						switch ev := ev.(type) {
						case event.Call:
							time.Sleep(test.listener)
						case event.End:
							s.end = ev
						}
						if _, ok := ev.(event.Progress); ok && test.leave {
							break run
						}
					}
					ran <- s
				}()
				other := r.another()
				for range 8 {
					time.Sleep(time.Minute)
					if err := watch(t, other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
						t.Fatalf("another driver gets %v", err)
					}
				}
				run := <-ran
				if test.leave {
					time.Sleep(long)
					run = watch(t, other.Continue(t.Context(), chat, user))
				}
				run.finished(event.FinishStop)
				if n.get("act") != 1 || len(model.Requests()) != 2 {
					t.Errorf("the body was entered %d times, the model called %d times", n.get("act"), len(model.Requests()))
				}
				r.acceptable()
			})
		})
	}
}

// TestCancelledFromAnotherProcess: which sends no signal to the driver's; the driver looks by itself.
func TestCancelledFromAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		act := does(tool.Spec{Name: "act"}, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		model := fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("I see."))
		r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{act}}, &rigOptions{memory: true, wrap: hidden})
		ended := r.begin("Go.")
		synctest.Wait()
		start := time.Now()
		_, err := r.another().Cancel(t.Context(), chat, r.onlyCall(), "bob", "enough")
		must(t, err)
		run := ended().finished(event.FinishStop)
		if res := of[event.Result](run); len(res) != 1 || res[0].Status != event.Cancelled || res[0].By != "bob" {
			t.Errorf("the call ended as %+v", res)
		}
		if took := time.Since(start); took > session.DefaultLease/3 {
			t.Errorf("the driver heard of it after %v", took)
		}
	})
}
