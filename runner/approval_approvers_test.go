package runner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A pause that names its approvers takes their decisions alone, in any process;
// what isn't a decision is not theirs to make.
func TestApproversAloneDecide(t *testing.T) {
	var n counter
	approvers := []string{"grace", "heidi"}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Approvers: func(tool.Call) []string { return approvers }})},
		Model: messages(calls("refund", `{"text":"10"}`), says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("refund")
	approvers[0] = "mallory" // the caller's own
	r.restart()
	if got := r.transcript().Pending[0].Await.Approvers; fmt.Sprint(got) != "[grace heidi]" {
		t.Errorf("the pause names %q", got)
	}
	for _, in := range []runner.Resumption{
		runner.Approve(p.ID, "mallory", ""), runner.Deny(p.ID, user, ""),
		runner.ApproveEdited(p.ID, "Grace", "", textIn{"1"}),
	} {
		_, err := r.Resume(t.Context(), chat, in)
		var other *session.ApproverError
		if !errors.As(err, &other) || !errors.Is(err, session.ErrNotApprover) ||
			other.Pause != p.ID || other.Actor != string(in.Actor) ||
			strings.Contains(other.Impersonal(), string(in.Actor)) {
			t.Errorf("%s decides: %v", in.Actor, err)
		}
	}
	r.answer(runner.Approve(p.ID, "heidi", "")).finished(event.FinishStop)
	must(t, r.Close())
	r.sound()
}

// What names no one, or too many, is refused where it is written.
func TestApproversThatMakeNoSense(t *testing.T) {
	many := make([]string, tool.MaxApprovers+1)
	for i := range many {
		many[i] = fmt.Sprint("a", i)
	}
	for name, a := range map[string]tool.Await{
		"a tool's own pause": {Approvers: []string{"grace"}},
		"an empty name":      {Gate: "g", Approvers: []string{""}},
		"a name twice":       {Gate: "g", Approvers: []string{"grace", "grace"}},
		"two lines":          {Gate: "g", Approvers: []string{"gr\nace"}},
		"a long name":        {Gate: "g", Approvers: []string{strings.Repeat("a", tool.MaxKey+1)}},
		"too many":           {Gate: "g", Approvers: many},
	} {
		if _, err := a.Normalize(); !errors.Is(err, tool.ErrInvalidAwait) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
