package runner_test

import (
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
)

// Drive takes what waits in the queue, and leaves a run that was stopped as it
// is, which Continue carries on.
func TestDriveCarriesOnWhatIsDue(t *testing.T) {
	r := echoRig(t, nil)
	r.send("a", "")
	r.send("b", "")
	watch(t, r.Drive(t.Context(), chat, user)).finished(event.FinishStop)
	r.reads("a | re: a | b | re: b")
	r.rest()

	r = newRig(t, agent.Config{Model: fakellm.New(fakellm.Fails(errors.New("no key")),
		fakellm.Says("Hello."))}, nil)
	if run := r.say("Hi."); run.end.Finish != event.FinishFailed {
		t.Fatalf("it ends as %+v", run.end)
	}
	if run := watch(t, r.Drive(t.Context(), chat, user)); run.end.Finish != event.FinishFailed ||
		run.err != nil {
		t.Errorf("a run that was stopped is driven to %+v, %v", run.end, run.err)
	}
	r.carryOn().finished(event.FinishStop)
}
