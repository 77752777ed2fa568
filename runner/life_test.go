package runner_test

import (
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestAcceptedMeansDurable(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Idempotent, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, nil)
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, text("v2"), "ci"))
	must(t, err)
	if res.Receipts[0].Duplicate {
		t.Error("the first answer is a duplicate")
	}
	r.restart() // nobody has ranged over the events
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
	if n.get("deploy") != 1 {
		t.Errorf("the body was entered %d times", n.get("deploy"))
	}
	r.acceptable()
}
