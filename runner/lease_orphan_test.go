package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A process dies that held a session for a body whose caller had left. The run was interrupted, and is for no worker: one gives the dead
// one's lease up, once, and is at rest.
func TestWorkerGivesUpWhatADeadDriveHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		stubborn := tool.Must(tool.Func(tool.Spec{Name: "stubborn", Description: "Ignores its context."},
			func(_ context.Context, in textIn) (tool.Result[textOut], error) {
				close(entered)
				<-release
				return tool.Done(textOut(in)), nil
			}))
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{stubborn}, Model: fakellm.New(fakellm.Calls("stubborn", `{"text":"a"}`), fakellm.Says("Done.")),
		}, &rigOptions{memory: true, wrap: hidden})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { <-entered; leave() }()
		watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		r.faults.Kill()
		r.restart()
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		var drives atomic.Int32
		_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
			if _, ok := ev.(event.End); ok && drives.Add(1) > 100 {
				stop()
			}
		}})
		if got := drives.Load(); got != 1 {
			t.Errorf("the worker drove it %d times", got)
		}
		r.carryOn().finished(event.FinishStop)
		close(release)
		must(t, r.Close())
	})
}
