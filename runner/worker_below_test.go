package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A child that comes to wait for a time, when nothing above it goes on any more,
// is carried on then: the worker is told of the time, and does not wait for its
// next poll.
func TestAWorkerIsToldOfTheTimesBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		slow := tool.Must(tool.Func(tool.Spec{Name: "slow", MayPause: true},
			func(context.Context, struct{}) (tool.Result[string], error) {
				<-let
				return tool.Pending[string](tool.Await{Timeout: time.Minute}), nil
			}))
		helper := nestedTool(t, "helper",
			fakellm.New(fakellm.Calls("slow", `{}`), fakellm.Says("It was not decided.")), slow)
		r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
			fakellm.Calls("helper", `{"what":"x"}`), fakellm.Says("Too bad."))},
			&rigOptions{memory: true})
		r.sends(user, chat, "Go.")
		e, stop := r.serves(runner.WorkOptions{Poll: 24 * time.Hour})
		time.Sleep(time.Hour) // the root has long come to wait for its child
		close(let)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if at, ended := e.of(chat); !ended || at > time.Hour+time.Minute+time.Second {
			t.Errorf("the run has ended: %v, after %v", ended, at)
		}
		stop()
		must(t, r.Close())
		r.sound()
	})
}
