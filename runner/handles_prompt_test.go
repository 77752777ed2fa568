package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// What handles owe their session is carried out in this process. So a run goes
// on, or ends, as soon as that is done, and not at its next look at the store.
// Each commit takes a millisecond here.
func TestARunGoesOnWhenItsHandlesAreDone(t *testing.T) {
	build := stateful(t, "build", tool.Idempotent,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which compiler?"), nil
		})
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`).
			And("await", `{"all":["a"]}`))
	slow := func(kv kvstore.Store) kvstore.Store {
		return &hooked{Store: kv, apply: func(kvstore.Batch) { <-time.After(time.Millisecond) }}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: model},
			&rigOptions{memory: true, wrap: slow})
		begun := time.Now()
		r.say("Go.").finished(event.FinishPaused)
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the run took %s", took)
		}
		must(t, r.Close())
		r.sound()
	})
}
