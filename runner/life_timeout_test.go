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
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestLateResultOfATimeout: the call has its result when its time is over, and its place is free for the next one; what the body
// comes back with later changes nothing.
func TestLateResultOfATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{}, 2)
		deaf := does(tool.Spec{Name: "deaf", Timeout: time.Second, MayPause: true}, func(_ context.Context, what string) (tool.Result[textOut], error) {
			defer func() { late <- struct{}{} }()
			time.Sleep(time.Minute)
			if what == "pause" {
				return tool.Pending[textOut](tool.Await{}), nil
			}
			return tool.Done(textOut{"late"}), nil
		})
		var n counter
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("deaf", "done", "pause").And("ok", `{"text":"a"}`), fakellm.Says("I see.")), Concurrency: 1,
			Tools: []tool.Tool{deaf, instant("ok", tool.Once, &n)},
		}, &rigOptions{memory: true})
		start := time.Now()
		run := r.say("Go.").finished(event.FinishStop)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the run took %v", took)
		}
		before := printed(r.transcript())
		<-late
		<-late
		synctest.Wait()
		if after := printed(r.transcript()); after != before {
			t.Errorf("what came late changed the session: %s", after)
		}
		for i, res := range of[event.Result](run) {
			if over := strings.Contains(string(res.Result.Output), "did not end within 1s. Whether it took effect is unknown"); over != (i < 2) {
				t.Errorf("result %d is %s", i, res.Result.Output)
			}
		}
	})
}

// TestCloseWaitsForWhatATimeoutLeft: it is a goroutine of the runner's, as long as it runs.
func TestCloseWaitsForWhatATimeoutLeft(t *testing.T) {
	for d, ends := range map[time.Duration]bool{5 * time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			deaf := does(tool.Spec{Name: "deaf", Timeout: time.Second}, func(context.Context, string) (tool.Result[textOut], error) {
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

// TestLeavingBodiesThatIgnoreIt: Run returns when its context ends, not when the slowest body does. What they come back with is
// recorded, in call order, and not shown to anybody.
func TestLeavingBodiesThatIgnoreIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := does(tool.Spec{Name: "deaf"}, func(_ context.Context, what string) (tool.Result[textOut], error) {
			d, _ := time.ParseDuration(what)
			time.Sleep(d)
			return tool.Done(textOut{what}), nil
		})
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("deaf", "300ms", "200ms", "100ms"), fakellm.Says("I see.")), Tools: []tool.Tool{deaf},
		}, &rigOptions{memory: true})
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		start := time.Now()
		run := watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		if took := time.Since(start); took != 25*time.Millisecond || run.end.Finish != event.FinishInterrupted || len(of[event.Result](run)) != 0 {
			t.Errorf("it returned after %v, as %q with %v", took, run.end.Finish, run.events)
		}
		time.Sleep(time.Second)
		r.idle()
		r.carryOn().finished(event.FinishStop)
		for i, p := range r.transcript().History[2].Parts {
			if res := p.(llm.ToolResult); res.Error || string(res.Output) != string(text([]string{"300ms", "200ms", "100ms"}[i])) {
				t.Errorf("result %d is %s", i, res.Output)
			}
		}
		r.acceptable()
	})
}
